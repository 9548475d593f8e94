"""The header of a GGUF file, versions 2 and 3: key-value pairs, then the table of tensors, all little-endian.

Source: ggml `docs/gguf.md` and `gguf.cpp`: a tensor's rows are made of whole blocks, and the tensors lie one behind
the other, each at a multiple of the alignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from service.domain.errors import pointer_step
from service.domain.files.table import (
    MOST_DIMENSIONS,
    MOST_HEADER_BYTES,
    MOST_NAME_CHARACTERS,
    MOST_TENSORS,
    Tensor,
    refuse,
)
from service.domain.units import MAX_EXACT_INTEGER, ceil_div

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MOST_PAIRS: Final = 1 << 16
_MOST_NESTED: Final = 4
_MOST_ALIGNMENT: Final = 1 << 20
_DEFAULT_ALIGNMENT: Final = 32
_STRING, _ARRAY = 8, 9
_VALUE_BYTES: Final[Mapping[int, int]] = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_ALIGNMENT_KEY, _FILE_TYPE_KEY = "general.alignment", "general.file_type"
_UNSIGNED_32: Final = 4

BLOCKS: Final[Mapping[int, tuple[str, int, int]]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""Tensor types by their number: name, elements of a block, bytes of one. Q8_1 is one of memory alone."""

FILE_TYPES: Final[Mapping[int, str]] = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s",
    12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs",
    20: "iq2_xs", 21: "q2_k_s", 22: "iq3_xs", 23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m",
    28: "iq2_s", 29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16", 36: "tq1_0", 37: "tq2_0", 38: "mxfp4_moe",
    39: "gguf_nvfp4", 40: "q1_0",
}  # fmt: skip
"""File types by their number, in the catalog's words; it may lack some."""


@dataclass(slots=True)
class GgufHeader:
    """What the pairs of a header say that matters here."""

    alignment: int = _DEFAULT_ALIGNMENT
    file_type: str | None = None
    tensors: int = 0


def read_gguf(read: Callable[[int], bytes], pointer: str) -> tuple[GgufHeader, Iterator[Tensor]]:
    """The header's pairs, and its tensors, which are read as they are asked for.

    `read` gives the file's next so many bytes; no more is read than the header. Raises ValidationError at what cannot
    be, at the latest with the last tensor.
    """
    source = _Source(read, pointer)
    if source.take(4) != _MAGIC:
        refuse(pointer, "It does not begin as a GGUF file does.")
    version = source.number(4)
    if version not in _VERSIONS:
        refuse(f"{pointer}/version", f"Version {version} is not known; versions 2 and 3 are.")
    count, pairs = source.number(8), source.number(8)
    if count > MOST_TENSORS:
        refuse(f"{pointer}/tensor_count", f"It claims {count:,} tensors; a file has at most {MOST_TENSORS:,}.")
    if pairs > _MOST_PAIRS:
        refuse(f"{pointer}/metadata_kv_count", f"It claims {pairs:,} pairs; a file has at most {_MOST_PAIRS:,}.")
    header = GgufHeader(tensors=count)
    for _ in range(pairs):
        _pair(source, header)
    return header, _tensors(source, header, pointer)


class _Source:
    """Reads forwards through a stream and never past what a header may be long."""

    __slots__ = ("_left", "_read", "pointer")

    def __init__(self, read: Callable[[int], bytes], pointer: str) -> None:
        self._read = read
        self._left = MOST_HEADER_BYTES
        self.pointer = pointer

    def take(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            refuse(self.pointer, f"A header has at most {MOST_HEADER_BYTES:,} bytes.")
        data = self._read(size)
        if len(data) < size:
            refuse(self.pointer, "The header is cut short.")
        return data

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def text(self, most: int, where: str) -> str:
        length = self.number(8)
        if length > most:
            refuse(f"{self.pointer}/{where}", f"A text claims {length:,} bytes; it may have {most:,}.")
        return self.take(length).decode("latin-1")

    def skip(self, size: int, where: str) -> None:
        if size > self._left:
            refuse(f"{self.pointer}/{where}", f"A value claims {size:,} bytes, more than a header has.")
        while size > 0:
            size -= len(self.take(min(size, 1 << 16)))


def _pair(source: _Source, header: GgufHeader) -> None:
    key = source.text(MOST_NAME_CHARACTERS, "metadata")
    where = f"metadata/{pointer_step(key)}"
    kind = source.number(4)
    if key in {_ALIGNMENT_KEY, _FILE_TYPE_KEY}:
        if kind != _UNSIGNED_32:
            refuse(f"{source.pointer}/{where}", "It must be an unsigned number of 32 bits.")
        number = source.number(4)
        if key == _FILE_TYPE_KEY:
            header.file_type = FILE_TYPES.get(number)
        elif not 0 < number <= _MOST_ALIGNMENT or number & (number - 1):
            refuse(f"{source.pointer}/{where}", f"An alignment is a power of two, not {number:,}.")
        else:
            header.alignment = number
        return
    _skip_value(source, kind, where, 0)


def _skip_value(source: _Source, kind: int, where: str, depth: int) -> None:
    if kind == _STRING:
        source.skip(source.number(8), where)
    elif kind == _ARRAY:
        _skip_array(source, where, depth)
    elif kind in _VALUE_BYTES:
        source.skip(_VALUE_BYTES[kind], where)
    else:
        refuse(f"{source.pointer}/{where}", f"A value of type {kind} is none that GGUF has.")


def _skip_array(source: _Source, where: str, depth: int) -> None:
    kind, count = source.number(4), source.number(8)
    if kind in _VALUE_BYTES:
        source.skip(count * _VALUE_BYTES[kind], where)
        return
    if depth >= _MOST_NESTED or count > MOST_HEADER_BYTES // 8:
        refuse(f"{source.pointer}/{where}", f"An array claims {count:,} values, or stands too deep in others.")
    for _ in range(count):
        _skip_value(source, kind, where, depth + 1)


def _tensors(source: _Source, header: GgufHeader, pointer: str) -> Iterator[Tensor]:
    names: set[str] = set()
    expected = 0
    for index in range(header.tensors):
        tensor, offset = _tensor(source, f"{pointer}/tensors/{index}", index)
        if tensor.name in names:
            refuse(f"{pointer}/tensors/{index}", "A tensor of that name was there before.")
        names.add(tensor.name)
        if offset != expected:
            refuse(f"{pointer}/tensors/{index}", f"It lies at {offset:,}, where {expected:,} is next.")
        expected += ceil_div(tensor.bytes, header.alignment) * header.alignment
        yield tensor


def _tensor(source: _Source, pointer: str, index: int) -> tuple[Tensor, int]:
    name = source.text(MOST_NAME_CHARACTERS, f"tensors/{index}")
    count = source.number(4)
    if count > MOST_DIMENSIONS:
        refuse(pointer, f"It claims {count:,} dimensions; a tensor has at most {MOST_DIMENSIONS}.")
    shape = [source.number(8) for _ in range(count)]
    kind, offset = source.number(4), source.number(8)
    found = BLOCKS.get(kind)
    if found is None:
        refuse(pointer, f"Its type {kind} is not known.")
    word, block, size = found
    elements = prod(shape)
    if not 0 < elements <= MAX_EXACT_INTEGER or (shape[0] if shape else 1) % block:
        refuse(pointer, f"Its rows are not made of whole blocks of {block}, or it is larger than any tensor.")
    return Tensor(name, word, elements, elements // block * size), offset
