"""The index of a checkpoint in several files: the sum of their tensors' bytes, and which file has which tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.domain.files.json_scan import Scanner
from service.domain.files.table import MOST_TENSORS, is_head, is_prediction, refuse
from service.domain.units import MAX_EXACT_INTEGER

_FILES: Final = (".safetensors", ".bin", ".pt")


@dataclass(slots=True)
class Index:
    """What an index tells: bytes of all tensors, how many there are, and whether a head or prediction layers are."""

    total_bytes: int = 0
    tensors: int = 0
    head: bool = False
    predicts: bool = False


def read_index(data: bytes | memoryview, layers: int, pointer: str) -> Index:
    """Read an index of any length once through; raises ValidationError at what cannot be."""
    scanner, found = Scanner(data, pointer), Index()
    for part in scanner.members():
        if part != "weight_map":
            value = scanner.value(part)
            if part == "metadata":
                found.total_bytes = _total(value, pointer)
            continue
        for name in scanner.members():
            _add(found, name, scanner.value(name), layers, pointer)
    scanner.end()
    return _checked(found, pointer)


def _add(found: Index, name: str, file: object, layers: int, pointer: str) -> None:
    if not isinstance(file, str) or not file.endswith(_FILES):
        refuse(f"{pointer}/weight_map", "It must say of each tensor which file has it, and an index is no such file.")
    found.tensors += 1
    found.head = found.head or is_head(name)
    found.predicts = found.predicts or is_prediction(name, layers)
    if found.tensors > MOST_TENSORS:
        refuse(f"{pointer}/weight_map", f"It has more than {MOST_TENSORS:,} tensors.")


def _total(metadata: object, pointer: str) -> int:
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or not 0 < total <= MAX_EXACT_INTEGER:
        refuse(f"{pointer}/metadata/total_size", "It must be the bytes of all tensors, a whole number.")
    return total


def _checked(found: Index, pointer: str) -> Index:
    if not found.total_bytes or not found.tensors:
        refuse(pointer, "An index has metadata.total_size and a weight_map of tensors.")
    return found
