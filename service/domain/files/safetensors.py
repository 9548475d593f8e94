"""The header of a safetensors file: a JSON object of tensors behind its own length (8 bytes, little-endian)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

from service.domain.files.json_scan import Scanner
from service.domain.files.table import (
    MOST_DIMENSIONS,
    MOST_HEADER_BYTES,
    MOST_NAME_CHARACTERS,
    MOST_TENSORS,
    Tensor,
    refuse,
)
from service.domain.units import MAX_EXACT_INTEGER

LENGTH_BYTES: Final = 8
_METADATA: Final = "__metadata__"
_BITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
}


def header_length(start: bytes, pointer: str) -> int:
    """How long the header is, by the file's first bytes; refuses what no header is."""
    if len(start) < LENGTH_BYTES:
        refuse(pointer, f"The file ends after {len(start)} bytes, before the length of its header.")
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if not 2 <= length <= MOST_HEADER_BYTES:  # noqa: PLR2004  # an empty object
        refuse(pointer, f"The file claims a header of {length:,} bytes; one has at most {MOST_HEADER_BYTES:,}.")
    return length


def read_safetensors(data: bytes, pointer: str) -> Iterator[Tensor]:
    """The tensors of a header as a file begins with it; what follows it is not looked at.

    Raises ValidationError at the tensor that cannot be: cut short, of another size than its shape, or over another.
    """
    length = header_length(data, pointer)
    if len(data) < LENGTH_BYTES + length:
        refuse(pointer, f"The header is cut short: {len(data) - LENGTH_BYTES:,} of {length:,} bytes.")
    yield from read_safetensors_json(memoryview(data)[LENGTH_BYTES : LENGTH_BYTES + length], pointer)


def read_safetensors_json(text: bytes | memoryview, pointer: str) -> Iterator[Tensor]:
    """The tensors of a header that is its JSON alone; raises as `read_safetensors`."""
    scanner = Scanner(text, pointer)
    spans = _Spans(pointer)
    for name in scanner.members():
        value = scanner.value(name)
        if name != _METADATA:
            yield _tensor(name, value, scanner.at(name), spans)
    scanner.end()
    spans.check()


class _Spans:
    """Where tensors begin and end in the data; they lie one behind the other, without gaps."""

    def __init__(self, pointer: str) -> None:
        self._begins = array("Q")
        self._ends = array("Q", [0])
        self._pointer = pointer

    def add(self, begin: int, end: int) -> None:
        if len(self._begins) >= MOST_TENSORS:
            refuse(self._pointer, f"It has more than {MOST_TENSORS:,} tensors.")
        self._begins.append(begin)
        self._ends.append(end)

    def check(self) -> None:
        """Each begins where another ends, the first at 0: then every byte belongs to one of them."""
        if sorted(self._begins) != sorted(self._ends)[:-1]:
            refuse(self._pointer, "Its tensors overlap, or leave gaps between them.")


def _tensor(name: str, value: object, pointer: str, spans: _Spans) -> Tensor:
    if not isinstance(value, Mapping) or len(name) > MOST_NAME_CHARACTERS:
        refuse(pointer, "A tensor is an object with dtype, shape and data_offsets, under a short name.")
    bits = _bits(value.get("dtype"), pointer)
    elements = prod(_whole_numbers(value.get("shape"), MOST_DIMENSIONS, f"{pointer}/shape"))
    if elements > MAX_EXACT_INTEGER:
        refuse(f"{pointer}/shape", "No tensor is so large.")
    offsets = _whole_numbers(value.get("data_offsets"), 2, f"{pointer}/data_offsets")
    size, rest = divmod(elements * bits, 8)
    if len(offsets) != 2 or rest or offsets[1] - offsets[0] != size:  # noqa: PLR2004  # from and to
        refuse(f"{pointer}/data_offsets", f"Its shape takes {elements * bits:,} bits, its offsets say otherwise.")
    spans.add(*offsets)
    return Tensor(name, str(value["dtype"]), elements, size)


def _bits(dtype: object, pointer: str) -> int:
    bits = _BITS.get(dtype) if isinstance(dtype, str) else None
    if bits is None:
        refuse(f"{pointer}/dtype", "The dtype is none that safetensors has.")
    return bits


def _whole_numbers(value: object, most: int, pointer: str) -> list[int]:
    if not isinstance(value, list) or len(value) > most or not all(map(_is_size, value)):
        refuse(pointer, f"It must be a list of at most {most} whole numbers from 0.")
    return value


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_EXACT_INTEGER
