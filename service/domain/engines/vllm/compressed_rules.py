"""How releases lay out compressed attention, dated catalog data: pages of several sizes in one block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.domain.engines.dated import Dated, dated, made, newest
from service.domain.engines.versions import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.versions import Release

NO_LAYOUT = "none"
TUPLES, SLOTS, OVERLAID = "tuples", "slots", "overlaid"


@dataclass(frozen=True, slots=True)
class LayoutRule:
    """How a release lays a block out, and what it counts in.

    A block holds as many of each page as any group has of any (`tuples`), of that page (`slots`), or what the largest
    group takes (`overlaid`). Blocks of a request are printed as they are, or `by_bytes` of the growing group's block;
    `checks_tuples`: whether the longest request fits is asked in blocks of tuples, whatever they take. `repeats_all`:
    the growing group's layers, too, decide how many a group of windows has. `asks_type`: a start has to say that the
    cache is in 8 bits. `families` are the compute capabilities that a kernel attends on; `gathered` are the index keys
    gathered of the longest sequence, as a multiple of it, and `gathered_long` above `long_tokens`.
    """

    layout: str
    by_bytes: bool = False
    checks_tuples: bool = False
    repeats_all: bool = False
    asks_type: bool = False
    families: tuple[int, ...] = ()
    gathered: int = 0
    gathered_long: int = 0
    long_tokens: int = 0

    def gathered_keys(self, longest_tokens: int) -> int:
        """Index keys that the profiled pass makes room for."""
        return longest_tokens * (self.gathered_long if longest_tokens > self.long_tokens else self.gathered)


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Bytes of a row, tokens of a block by what it keeps, and what pages are rounded up to.

    `state_tokens` are the tokens of a block of inputs still to be compressed, by how many of them are kept.
    """

    row_elements: int
    row_bytes: int
    index_elements: int
    index_bytes: int
    multiple_bytes: int
    tokens: int
    window_tokens: int
    state_tokens: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What loading and the profiled pass take otherwise than the closed forms of other models say.

    `element_bytes` are widths of modules by name; a table of angles has `rotary_elements` for each position.
    """

    element_bytes: Mapping[str, int]
    rotary_elements: int
    rotary_bytes: int
    expert_rows: int
    expert_columns: int
    weight_spread: float
    prompts_at_once: int
    padded_heads: tuple[int, ...]
    logits_bytes: int
    streams_held: int
    less: float
    more: float


class Compressed(NamedTuple):
    """The rules of one release."""

    rule: LayoutRule
    first: str
    pages: PageFacts
    memory: MemoryFacts
    cache_types: frozenset[str]
    own_type: str

    @property
    def described(self) -> bool:
        """Whether the release has such models at all."""
        return self.rule.layout != NO_LAYOUT


class CompressedTopic(NamedTuple):
    """The layouts by release, and what no release has changed."""

    layouts: Dated[LayoutRule]
    first: str
    pages: PageFacts
    memory: MemoryFacts
    cache_types: frozenset[str]
    own_type: str

    @property
    def meant(self) -> tuple[frozenset[str], str] | None:
        """Types that mean the kernel's own, and that one; None in a catalog of before."""
        return (self.cache_types, self.own_type) if self.own_type else None

    def of(self, release: Release) -> Compressed:
        """The rules of a release."""
        return Compressed(newest(self.layouts, release), *self[1:])


def _by_module(memory: Mapping[str, Any]) -> dict[str, int]:
    return {name: row["bytes"] for row in memory["element_bytes"] for name in row["modules"]}


_NOT_DESCRIBED: Final = CompressedTopic(
    ((parse("0.1.0"), LayoutRule(NO_LAYOUT)),),
    "",
    PageFacts(0, 0, 0, 0, 1, 0, 0, {}),
    MemoryFacts({}, 0, 0, 1, 1, 0.0, 0, (), 0, 0, 0.0, 0.0),
    frozenset(),
    "",
)
"""A catalog of before, whose engine has no such topic."""


def read_compressed(facts: Mapping[str, Any] | None) -> CompressedTopic:
    """Read the topic of the catalog; raises KeyError or TypeError where it lacks a figure."""
    if facts is None:
        return _NOT_DESCRIBED
    pages, memory = facts["pages"], facts["memory"]
    layouts = facts["layouts"]
    return CompressedTopic(
        dated(layouts, lambda row: made(LayoutRule, row, families=tuple(row.get("families", ())))),
        next(row["since"] for row in layouts if row["layout"] != NO_LAYOUT),
        made(PageFacts, pages, state_tokens={row["kept"]: row["tokens"] for row in pages["state_tokens"]}),
        made(MemoryFacts, memory, padded_heads=tuple(memory["padded_heads"]), element_bytes=_by_module(memory)),
        frozenset(facts["cache_types"]),
        facts["own_type"],
    )
