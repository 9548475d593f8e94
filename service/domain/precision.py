"""Number formats: what a weight matrix or a cache row takes when it is stored in one.

The widths and scales are catalog data (`catalog/dtypes/`), checked there against published file sizes; this module
holds only the form they share (`bits of an element + bits of a group's scale + bytes of a row, column and tensor`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from service.domain.architecture import ModuleKind
from service.domain.errors import CatalogFactError
from service.domain.gguf_mix import Mix, read_mix
from service.domain.units import ceil_bytes, ceil_div, exact_div

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.domain.architecture import Module
    from service.domain.catalog import Entry

_REST_BITS = 16
_BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class WeightFormat:
    """How a checkpoint stores its matrices: element width, scales, and which modules it leaves in 16 bits."""

    name: str
    element_bits: Fraction | int
    group_rows: int
    group_columns: int
    group_bits: Fraction | int
    row_bits: int
    column_bits: int
    tensor_bytes: int
    ideal: bool
    rest_bits: int
    quantizes: frozenset[ModuleKind]
    matmul_types: tuple[str, ...]
    fallback: str | None = None
    """The format of a matrix whose rows its groups do not divide, where there is one."""
    file_bytes: int | None = None
    """What the published file holds, where its own format is quoted and its table of tensors was read."""

    @property
    def uniform_bits(self) -> Fraction | int | None:
        """Bits of every parameter alike, or None where matrices and the rest differ."""
        return self.element_bits if self.ideal else None

    def of(self, module: Module) -> WeightFormat:  # noqa: ARG002  # one that stores all modules alike
        """The format that a module is in, in its first layer."""
        return self

    def held_bytes(self, module: Module, rows: int, columns: int, layers: Sequence[int]) -> int:
        """Bytes of a [rows, columns] part of each of the layers' matrices of a module; one a layer."""
        return len(layers) * self.matrix_bytes(rows, columns, module.kind)

    def matrix_bytes(self, rows: int, columns: int, kind: ModuleKind) -> int:
        """Bytes of a [rows, columns] matrix of that kind (reference: accounting section 7, one line a format)."""
        if self.ideal:
            return ceil_bytes(self.element_bits * rows * columns)
        if kind not in self.quantizes or columns == 1:
            return rows * columns * self.rest_bits // _BITS
        groups = ceil_div(rows, self.group_rows) * ceil_div(columns, self.group_columns)
        bits = self.element_bits * rows * columns + self.group_bits * groups
        bits += self.row_bits * rows + self.column_bits * columns
        return ceil_bytes(bits) + self.tensor_bytes


@dataclass(frozen=True, slots=True, eq=False)
class CacheFormat:
    """How a cache row is stored: bits of an element and of the scale that a group of elements shares."""

    name: str
    element_bits: Fraction | int
    group_elements: int
    group_bits: Fraction | int
    rope_bits: int | None = None
    """Bits of the position part of a latent vector, where the format is for those vectors alone."""
    values: CacheFormat | None = None
    """The format of values where it is another than that of keys."""

    def value_bytes(self, elements: int) -> Fraction | int:
        """Bytes of a token's values, exact."""
        return (self.values or self).row_bytes(elements)

    def latent_bytes(self, compressed: int, rope: int) -> Fraction | int:
        """Bytes of a latent vector of that many compressed and position elements."""
        if self.rope_bits is None:
            return self.row_bytes(compressed + rope)
        return self.row_bytes(compressed) + exact_div(self.rope_bits * rope, _BITS)

    def row_bytes(self, elements: int) -> Fraction | int:
        """Bytes of `elements` values kept for one token, exact and not yet rounded to whole bytes."""
        groups = ceil_div(elements, self.group_elements)
        return exact_div(self.element_bits * elements + self.group_bits * groups, _BITS)


@lru_cache(maxsize=64)
def paired(keys: CacheFormat, values: CacheFormat) -> CacheFormat:
    """A cache with keys in one format and values in another, the same object for the same two: `keys/values`."""
    if keys is values:
        return keys
    return replace(keys, name=f"{keys.name}/{values.name}", values=values)


@dataclass(frozen=True, slots=True, eq=False)
class NumberFormat:
    """One entry of the catalog's formats; a role it cannot play is None.

    With a `mix`, a file of that name stores each tensor in a format by rules: `weight` is its base and not the file.
    """

    name: str
    weight: WeightFormat | None
    cache: CacheFormat | None
    mix: Mix | None
    aliases: tuple[str, ...]

    @property
    def mixed(self) -> bool:
        """Whether a file of that name holds tensors of several formats."""
        return self.mix is not None


def from_facts(entry: Entry) -> NumberFormat:
    """Read a catalog entry of kind `dtype`; raises CatalogFactError where it lacks what its role needs."""
    facts = entry.facts
    try:
        return NumberFormat(
            name=entry.id,
            weight=_weight(entry.id, facts["weight"]) if facts.get("weight") else None,
            cache=_cache(entry.id, facts["kv"]) if facts.get("kv") else None,
            mix=read_mix(facts["mix"]) if facts.get("mix") else None,
            aliases=tuple(facts.get("aliases", ())),
        )
    except (KeyError, ValueError, TypeError) as error:
        detail = f"The number format {entry.id} cannot be read: {error}."
        raise CatalogFactError.at("/facts", detail) from error


def _weight(name: str, facts: Mapping[str, Any]) -> WeightFormat:
    return WeightFormat(
        name=name,
        element_bits=_bits(facts["element_bits"]),
        group_rows=facts.get("group_rows") or 1,
        group_columns=facts.get("group_columns") or 1,
        group_bits=_bits(facts.get("group_bits") or 0),
        row_bits=facts.get("row_bits") or 0,
        column_bits=facts.get("column_bits") or 0,
        tensor_bytes=facts.get("tensor_bytes") or 0,
        ideal=bool(facts.get("ideal")),
        rest_bits=facts.get("rest_bits") or _REST_BITS,
        quantizes=frozenset(ModuleKind(kind) for kind in facts.get("quantizes") or ()),
        matmul_types=tuple(facts["matmul_type"]),
        fallback=facts.get("fallback"),
    )


def _cache(name: str, facts: Mapping[str, Any]) -> CacheFormat:
    return CacheFormat(
        name=name,
        element_bits=_bits(facts["element_bits"]),
        group_elements=facts.get("group_columns") or 1,
        group_bits=_bits(facts.get("group_bits") or 0),
        rope_bits=facts.get("rope_bits") if facts.get("latent_only") else None,
    )


def _bits(value: str | float) -> Fraction | int:
    """A width in bits, kept as an integer where it is one: comparing fractions costs a question its speed."""
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else exact
