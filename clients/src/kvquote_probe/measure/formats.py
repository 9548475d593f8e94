"""How a cache is stored: widths and scales from the service's catalog, laid out as tensors. No torch needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

_BITS = 8
_SCALE_BYTES, _SCALED_ELEMENTS = 4, 128
"""An indexer's key carries a 32-bit scale for 128 elements of 8 bits, whatever the rest is kept in (accounting 2.1)."""

_TORCH_NAMES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "int8": "int8",
}


@dataclass(frozen=True)
class CacheFormat:
    """A number format of the catalog as a cache is kept in it: bits of an element, bits of the scale of a group."""

    name: str
    element_bits: Fraction
    group_elements: int = 1
    group_bits: int = 0
    rope_bits: int | None = None
    """Bits of the position part of a latent vector, where the format is for those vectors alone."""

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> CacheFormat:
        """From an entry of /dtypes; raises ValueError where no cache is kept in it."""
        facts = (entry.get("facts") or {}).get("kv")
        if not facts:
            raise ValueError(f"No cache is kept in {entry.get('id')}.")
        return cls(
            name=str(entry["id"]),
            element_bits=Fraction(str(facts["element_bits"])),
            group_elements=facts.get("group_columns") or 1,
            group_bits=facts.get("group_bits") or 0,
            rope_bits=facts.get("rope_bits") if facts.get("latent_only") else None,
        )

    @property
    def torch_name(self) -> str:
        """The torch type of its elements; `uint8` where they are packed or torch has none."""
        return _TORCH_NAMES.get(self.name, "uint8")

    def rows(self, elements: int) -> list[Row]:
        """The tensors that keep rows of so many elements: the elements, and their scales where there are any."""
        packed = self.torch_name == "uint8"
        width = ceil(self.element_bits * elements / _BITS) if packed else elements
        scales = ceil(Fraction(elements, self.group_elements)) * self.group_bits // _BITS
        return [Row(self.torch_name, width), *([Row("uint8", scales)] if scales else [])]

    def latent_rows(self, compressed: int, rope: int) -> list[Row]:
        """The same for a latent vector, whose position part may be kept wider."""
        if self.rope_bits is None:
            return self.rows(compressed + rope)
        return [*self.rows(compressed), Row("uint8", rope * self.rope_bits // _BITS)]


@dataclass(frozen=True)
class Row:
    """What one tensor holds for one token: so many elements of a torch type."""

    torch_name: str
    elements: int


def indexer_row(key_width: int) -> Row:
    """A key with its scales in one row of bytes."""
    return Row("uint8", key_width + _SCALE_BYTES * ceil(key_width / _SCALED_ELEMENTS))
