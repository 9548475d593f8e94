"""A model whose positions a command scales otherwise than its config: `--hf-overrides`, `--rope-scaling`.

Nothing else of a config may be overridden: sizes would need the config itself. The longest sequence follows from the
scaling as `_get_and_verify_max_len` of vLLM works it out, which releases do differently.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from service.domain.architecture import ModuleKind
from service.domain.commands.reading import shown
from service.domain.configs.rotary import kind_of, rescaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.architecture import Rotary
    from service.domain.commands.meaning import Understood
    from service.domain.engines.plain import LengthRule
    from service.domain.model import Model
    from service.domain.naming import NamedModel

SCALING, POSITIONS = "_rope_scaling", "_positions"
NAMES: Final = frozenset({SCALING, POSITIONS})
"""Names that flags set for `rescaled_model` to settle."""

_MULTIPLY = frozenset({"linear", "dynamic"})
_PLAIN = frozenset({"default", "llama3"})
_SCALED = frozenset({"yarn"})
_GREATEST_FACTOR = 1024
_GREATEST_POSITIONS = 1 << 30
_OTHER_PARTS = frozenset({ModuleKind.VISION, ModuleKind.AUDIO, ModuleKind.ENCODER})
_WAY_OUT = "leave it out and give the overridden config as config"


def rescaled_model(found: Understood, named: NamedModel, lengths: LengthRule) -> NamedModel:
    """The model with what `found` says of its positions; itself where nothing does. Faults are added to `found`."""
    if NAMES.isdisjoint(found.settings):
        return named
    (scaling, scaling_by), (positions, positions_by) = found.take_said(SCALING), found.take_said(POSITIONS)
    said = _Said(found, scaling_by or positions_by, named.model, lengths)
    model = said.model(scaling, named.model.architecture.context_tokens if positions is None else positions)
    return named if model is None else named._replace(model=model)


@dataclass(frozen=True, slots=True)
class _Said:
    """What flags say of a model's positions, `spelling` being the one that refusals name."""

    found: Understood
    spelling: str
    published: Model
    lengths: LengthRule

    def model(self, scaling: Mapping[str, Any] | None, own: int | None) -> Model | None:
        """The model with `own` positions and, unless None, a scaling of them; None with a fault where it cannot be."""
        if own is not None and not 0 < own <= _GREATEST_POSITIONS:
            self.found.fail(f"{self.spelling} must be from 1 to {_GREATEST_POSITIONS:,}, not {own}.")
            return None
        if own is None or not _is_flat(self.published):
            self.found.refuse(f"{self.spelling} is not modelled for {self.published.name}: {_WAY_OUT}.")
            return None
        return self._with_positions(own) if scaling is None else self._with_scaling(scaling, own)

    def _with_positions(self, own: int) -> Model | None:
        rotary = self.published.architecture.rotary
        if rotary.stretch != 1.0 or rotary.short_tokens is not None:
            self.found.refuse(f"{self.spelling} is not modelled for positions that are scaled: {_WAY_OUT}.")
            return None
        self.found.notes.append(f"{self.spelling}: the longest sequence is {own:,} tokens")
        return self._changed(own, rotary, own)

    def _with_scaling(self, scaling: Mapping[str, Any], own: int) -> Model | None:
        longest = self._longest(scaling, own)
        if longest is None:
            return None
        kind = kind_of(scaling)
        said = f"{self.spelling}: positions are scaled by {kind}, and the longest sequence is {longest:,} tokens"
        if kind in _SCALED and not self.lengths.yarn_multiplies:
            said += ", the max_position_embeddings of the config or the overrides, whatever the factor"
        self.found.notes.append(said)
        return self._changed(own, rescaled(self.published.architecture.rotary, scaling, own), longest)

    def _changed(self, own: int, rotary: Rotary, longest: int) -> Model:
        architecture = replace(self.published.architecture, context_tokens=own, rotary=rotary)
        return replace(self.published, architecture=architecture, context_tokens=longest, memo={})

    def _longest(self, scaling: Mapping[str, Any], own: int) -> int | None:
        """Tokens of the longest sequence; None where the scaling cannot be read."""
        kind = kind_of(scaling)
        if kind not in _MULTIPLY | _PLAIN | _SCALED:
            known = ", ".join(sorted(_MULTIPLY | _PLAIN | _SCALED))
            detail = f"{self.spelling} with rope_type {shown(kind)} is not modelled, only {known}: {_WAY_OUT}."
            self.found.refuse(detail)
            return None
        return own if kind in _PLAIN else self._multiplied(kind, scaling, own)

    def _multiplied(self, kind: str, scaling: Mapping[str, Any], own: int) -> int | None:
        factor, trained = scaling.get("factor"), scaling.get("original_max_position_embeddings")
        if not _is_number(factor) or not 1 <= factor <= _GREATEST_FACTOR:
            self.found.fail(f"{self.spelling}: {kind} needs a factor from 1 to {_GREATEST_FACTOR:,}.")
            return None
        if kind in _MULTIPLY and trained is not None:
            self.found.refuse(f"{self.spelling}: {kind} beside original_max_position_embeddings is not modelled.")
            return None
        if kind in _MULTIPLY:
            return int(own * factor)
        if type(trained) is not int or not 0 < trained <= _GREATEST_POSITIONS:
            needed = "original_max_position_embeddings, a whole number of tokens"
            self.found.fail(f"{self.spelling}: {kind} needs {needed}.")
            return None
        return int(trained * factor) if self.lengths.yarn_multiplies else own


def _is_flat(model: Model) -> bool:
    """Whether the model is text alone, so that its config has the scaling where overrides put it."""
    return not model.architecture.rotary.pictures and _OTHER_PARTS.isdisjoint(model.architecture.kinds)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
