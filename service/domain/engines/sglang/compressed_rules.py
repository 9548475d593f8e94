"""How releases divide the cache of compressed attention, dated catalog data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.domain.engines.dated import Dated, dated, made, newest
from service.domain.engines.ranks.padding import ExpertKernel
from service.domain.engines.versions import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.versions import Release

NONE, SHARE, SEQUENCES = "none", "share", "sequences"


@dataclass(frozen=True, slots=True)
class PoolRule:
    """How a release sizes the pools of windows and of inputs still to be compressed.

    `windows` are kept for a `share` of the tokens, or for the `sequences` that may run and for prefixes of others.
    `many_states` says the same of the inputs of layers that compress many tokens; those of the others go with windows,
    a ring of them for every `ring_tokens`. `padded`: pages count as they are laid out. `whole`: every stage counts the
    layers of the whole model and those that predict. `least_checked`: a pool of windows that admits no sequence stops
    the start. `rotary_tables` are held for each kind of angles, of compressed layers and of others. `families` are the
    compute capabilities that a kernel attends on.
    """

    windows: str
    many_states: str = SHARE
    ring_tokens: int = 1
    padded: bool = False
    whole: bool = False
    least_checked: bool = False
    rotary_tables: int = 0
    families: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Tokens of a page and of a row, at each rate, bytes of a row, and what a page's rows are rounded up to."""

    tokens: int
    rates: frozenset[int]
    row_elements: int
    row_bytes: int
    index_elements: int
    index_bytes: int
    multiple_bytes: int


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """The pool of windows: its share of tokens, and what each sequence takes where it is sized for those that run.

    `sequences` run where nobody says. Each may go `late_tokens` beyond its window before anything is freed, times the
    tokens drafted, and leaves `prefixes` windows behind for later ones; `chunks` of prompts, and of drafts, are under
    way at once. Beside a drafter rings of inputs are `drafted_rings` times as long.
    """

    ratio: tuple[int, int]
    sequences: int
    late_tokens: int
    prefixes: int
    chunks: int
    drafted_rings: int


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What loading takes otherwise than the closed forms of other models say.

    `element_bytes` are widths of modules by name; tables of angles have `rotary_elements` for each position.
    """

    element_bytes: Mapping[str, int]
    rotary_elements: int
    rotary_bytes: int


class Compressed(NamedTuple):
    """The rules of one release."""

    rule: PoolRule
    first: str
    pages: PageFacts
    windows: WindowFacts
    memory: MemoryFacts
    cache_types: frozenset[str]
    own_type: str
    kernels: tuple[ExpertKernel, ...]

    def table_bytes(self, positions: int) -> int:
        """Tables of one kind of angles, over every position that the model has."""
        return positions * self.rule.rotary_tables * self.memory.rotary_elements * self.memory.rotary_bytes

    @property
    def described(self) -> bool:
        """Whether the release has such models at all."""
        return self.rule.windows != NONE


class CompressedTopic(NamedTuple):
    """The pools by release, and what no release has changed."""

    pools: Dated[PoolRule]
    first: str
    pages: PageFacts
    windows: WindowFacts
    memory: MemoryFacts
    cache_types: frozenset[str]
    own_type: str
    kernels: Dated[ExpertKernel]

    @property
    def meant(self) -> tuple[frozenset[str], str] | None:
        """Types that mean the kernel's own, and that one; None in a catalog of before."""
        return (self.cache_types, self.own_type) if self.own_type else None

    def of(self, release: Release) -> Compressed:
        """The rules of a release."""
        kernels = tuple(kernel for since, kernel in self.kernels if since <= release)
        return Compressed(newest(self.pools, release), *self[1:-1], kernels)


_NOT_DESCRIBED: Final = CompressedTopic(
    ((parse("0.1.0"), PoolRule(NONE)),),
    "",
    PageFacts(1, frozenset(), 0, 0, 0, 0, 1),
    WindowFacts((1, 1), 0, 0, 0, 0, 1),
    MemoryFacts({}, 0, 0),
    frozenset(),
    "",
    (),
)
"""A catalog of before, whose engine has no such topic."""


def read_compressed(facts: Mapping[str, Any] | None) -> CompressedTopic:
    """Read the topic of the catalog; raises KeyError or TypeError where it lacks a figure."""
    if facts is None:
        return _NOT_DESCRIBED
    pools, windows, memory = facts["pools"], facts["windows"], facts["memory"]
    sizes = {name: row["bytes"] for row in memory["element_bytes"] for name in row["modules"]}
    return CompressedTopic(
        dated(pools, lambda row: made(PoolRule, row, families=tuple(row.get("families", ())))),
        next(row["since"] for row in pools if row["windows"] != NONE),
        made(PageFacts, facts["pages"], rates=frozenset(facts["pages"]["rates"])),
        made(WindowFacts, windows, ratio=Fraction(str(windows["ratio"])).as_integer_ratio()),
        made(MemoryFacts, memory, element_bytes=sizes),
        frozenset(facts["cache_types"]),
        facts["own_type"],
        dated(facts["kernels"], lambda row: made(ExpertKernel, row)),
    )
