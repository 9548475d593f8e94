"""The policy of llama.cpp as the catalog keeps it; its releases are numbered builds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.domain.commands.flags import FlagTable
from service.domain.engines.dated import made
from service.domain.engines.llama_cpp.rules import (
    CellRule,
    ComputeRule,
    Constants,
    FitRule,
    LatentRule,
    OffloadRule,
    Rules,
    SlotRule,
)
from service.domain.engines.plain import EngineDefaults
from service.domain.engines.times import step_policy
from service.domain.errors import CatalogFactError, Fault, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.domain.catalog import Entry
    from service.domain.engines.times import StepPolicy
    from service.domain.gpu import Gpu
    from service.domain.model import Model

_BUILD = re.compile(r"b?(\d{1,6})", re.ASCII)
_KEPT = 128
_Rows = tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class Topics:
    """Every topic, oldest rule first, each with the build that it holds from."""

    slots: _Rows
    cells: _Rows
    latent: _Rows
    compute: _Rows
    fitting: _Rows
    offload: _Rows


@dataclass(frozen=True, slots=True, eq=False)
class LlamaCppEngine:
    """llama.cpp as the catalog describes it; `release` gives the rules of one of its builds."""

    name: str
    takes: frozenset[str]
    memory_basis: str
    flags: FlagTable
    newest_build: int
    read: tuple[int, ...]
    topics: Topics
    constants: Constants
    step: StepPolicy
    kept: dict[int, Rules] = field(default_factory=dict, repr=False)

    def release(self, text: str | None) -> Rules:
        """The rules of a build, the newest known where None; raises ValidationError for what is no build."""
        number = self.newest_build if text is None else build_of(text, self.newest_build)
        found = self.kept.get(number)
        if found is None:
            found = self._resolved(number)
            if len(self.kept) >= _KEPT:
                self.kept.clear()
            self.kept[number] = found
        return found

    def _resolved(self, number: int) -> Rules:
        topics = self.topics
        return Rules(
            f"b{number}",
            self._note(number),
            _newest(topics.slots, number),
            _newest(topics.cells, number),
            _newest(topics.latent, number),
            _newest(topics.compute, number),
            _newest(topics.fitting, number),
            _newest(topics.offload, number),
            self.constants,
        )

    def _note(self, number: int) -> str | None:
        """What to say of a build whose own rules were not read; None of one whose rules were."""
        if number in self.read:
            return None
        if number > self.newest_build:
            return f"llama.cpp b{number} is newer than b{self.newest_build}, the newest known: quoted by its rules"
        older = max((build for build in self.read if build < number), default=None)
        if older is None:
            return f"llama.cpp b{number} is older than the oldest build whose rules were read, b{min(self.read)}"
        return f"the rules of llama.cpp b{number} were not read: quoted by those of b{older}"

    def release_defaults(self, asked: Mapping[str, Any]) -> EngineDefaults:
        """The build asked for, by default the newest known; it keeps no share of memory back."""
        return EngineDefaults(self.release(asked.get("engine_version")).name, (), self.memory_basis, 1.0, None)

    def weight_name(self, asked: str | None, model: Model, gpu: Gpu | None) -> str:  # noqa: ARG002  # as other engines
        """The file type: as asked, or what a checkpoint is converted to."""
        constants, name = self.constants, asked or model.checkpoint_format
        name = constants.weight_types.get(name, name)
        return constants.otherwise if asked is None and name not in constants.file_types else name

    def cache_name(self, asked: str | None, model: Model, weight_name: str, gpu: Gpu | None) -> str:  # noqa: ARG002
        """The same 16-bit type for every model."""
        return self.constants.cache_default


def build_of(text: str, newest: int) -> int:
    """The number of a build from its name; raises ValidationError for anything else."""
    found = _BUILD.fullmatch(text.strip().casefold())
    if found is None:
        detail = f"{text[:40]!r} is not written as a build; the newest known is b{newest}."
        raise ValidationError(Fault("/engine_version", detail))
    return int(found[1])


def from_facts(entry: Entry) -> LlamaCppEngine:
    """Read the catalog entry of llama.cpp; raises CatalogFactError where a figure is missing."""
    facts = entry.facts
    try:
        return LlamaCppEngine(
            name=entry.id,
            takes=frozenset(facts["takes"]),
            memory_basis=facts["memory_basis"],
            flags=FlagTable(facts.get("flags", {}), lambda name: build_of(name, facts["builds"]["newest"])),
            newest_build=facts["builds"]["newest"],
            read=tuple(facts["builds"]["read"]),
            topics=_topics(facts),
            constants=_constants(facts),
            step=step_policy(facts),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise CatalogFactError.at("/facts", f"The engine {entry.id} cannot be read: {error}.") from error


def _topics(facts: Mapping[str, Any]) -> Topics:
    return Topics(
        slots=_rows(facts["slots"], lambda row: made(SlotRule, row)),
        cells=_rows(facts["cells"], lambda row: made(CellRule, row, windows=frozenset(row["windows"]))),
        latent=_rows(facts["latent"], lambda row: made(LatentRule, row, indexed=frozenset(row["indexed"]))),
        compute=_rows(facts["compute"], lambda row: made(ComputeRule, row)),
        fitting=_rows(facts["fitting"], lambda row: made(FitRule, row)),
        offload=_rows(facts["offload"], lambda row: made(OffloadRule, row)),
    )


def _constants(facts: Mapping[str, Any]) -> Constants:
    cache, weights = facts["cache_types"], facts["weights"]
    return Constants(
        runtime=tuple(facts["runtime"]["bytes"]),
        cache_default=cache["default"],
        cache_types=frozenset(cache["names"]),
        wide_cache_types=frozenset(cache["wide"]),
        state_element_bytes=facts["states"]["element_bytes"],
        weight_types=dict(weights["types"]),
        file_types=frozenset(weights["files"]),
        otherwise=weights["otherwise"],
    )


def _rows(rows: Sequence[Mapping[str, Any]], make: Callable[[Mapping[str, Any]], Any]) -> _Rows:
    return tuple((row["since"], make(row)) for row in rows)


def _newest(rows: _Rows, number: int) -> Any:  # noqa: ANN401  # as the topic's rules
    held = [rule for since, rule in rows if since <= number]
    return held[-1] if held else rows[0][1]
