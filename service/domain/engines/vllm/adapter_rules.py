"""What the catalog says of adapters (LoRA): how a release lays slots out, and which matrices of a family have any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.domain.engines.dated import Dated, dated, made
from service.domain.engines.versions import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.versions import Release

DEFAULT_RANK = 16
"""The greatest rank of an adapter where nobody says, in every release read (`max_lora_rank` of LoRAConfig)."""


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """How a release sizes slots: the ranks it takes, its largest vocabulary, and what belongs to all slots together.

    `added_words` are rows that each slot has for words of its own, `head_multiple` what rows of the output matrix are
    rounded up to; `token_bytes` and `sequence_bytes` are indices for each of a batch, `graph_kinds` how often a graph
    is captured.
    """

    ranks: tuple[int, ...]
    most_words: int
    added_words: int
    head_multiple: int
    token_bytes: int
    sequence_bytes: int
    graph_kinds: int


@dataclass(frozen=True, slots=True)
class AdaptedFamily:
    """Which matrices of a family have slots: all of its layers', and its tables where `inputs` and `outputs` say so.

    `joined` are groups of matrices whose slots share one factor; `experts` says that routers and experts have slots,
    `again` that a table which is its own output matrix has its slots twice, `longer` that tables have rows for added
    words. The engine has no slots at all where `refused`, and another implementation of the family from `until` on.
    """

    inputs: bool = False
    outputs: bool = False
    joined: frozenset[str] = frozenset()
    again: bool = False
    experts: bool = False
    longer: bool = False
    refused: bool = False
    until: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class AdapterRules:
    """One release's: its layout, None before the first that was read, and its families with the first of each."""

    layout: SlotLayout | None
    first: str
    families: Mapping[str, AdaptedFamily]
    since: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AdapterTopic:
    """Every rule of the topic, oldest first."""

    layouts: Dated[SlotLayout]
    first: str
    families: Dated[tuple[tuple[tuple[str, ...], AdaptedFamily], ...]]
    since: Mapping[str, str]

    def of(self, release: Release) -> AdapterRules:
        """What of it holds for a release."""
        layouts = [layout for since, layout in self.layouts if since <= release]
        held: dict[str, AdaptedFamily] = {}
        for since, rows in self.families:
            for names, family in rows if since <= release else ():
                held |= dict.fromkeys(names, family)
        known = {name: f for name, f in held.items() if not f.until or release < parse(f.until)}
        return AdapterRules(layouts[-1] if layouts else None, self.first, known, self.since)


def read_adapters(facts: Mapping[str, Any]) -> AdapterTopic:
    """The topic of a catalog entry; one that has none knows no release."""
    groups = facts.get("families", ())
    since: dict[str, str] = {}
    for group in groups:
        adapted = (row for row in group["rows"] if not row.get("refused"))
        since = {name: group["since"] for row in adapted for name in row["model_types"]} | since
    layouts = facts.get("layouts", ())
    return AdapterTopic(
        dated(layouts, lambda row: made(SlotLayout, row, ranks=tuple(row["ranks"]))),
        layouts[0]["since"] if layouts else "",
        dated(groups, lambda group: tuple(_family(row) for row in group["rows"])),
        since,
    )


def _family(row: Mapping[str, Any]) -> tuple[tuple[str, ...], AdaptedFamily]:
    return tuple(row["model_types"]), made(AdaptedFamily, row, joined=frozenset(row.get("joined", ())))
