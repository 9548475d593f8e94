"""Which number format each module of a checkpoint is in, by the rules that its config states (accounting section 7).

Lists name a module in every layer, or a layer, or what all layers have; they are gathered by what stands behind the
layer's number first, so that a list of thousands costs little more than one of a few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from service.domain.architecture import ModuleKind, Place
from service.domain.errors import ConfigError, Fault
from service.domain.patterns import Pattern, PatternError, compiled
from service.domain.published_names import is_linear, names_in_layer

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, FormatRule, Module

Layers = tuple[int, ...]
_EXPRESSION: Final = "re:"
_WRAPPED = re.compile(r"(?:model\.)?(?:language_model|llm|thinker)\.(?:model\.)?(?=[^*])|(?:backbone|decoder)\.")
_OWN = "model."
_BEGINNINGS: Final = ("model.", "language_model.model.", "model.language_model.")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+|\*)(?:\.(.*))?$")
_OTHER_TOWERS = re.compile(r"vision|visual|audio|mtp|vit\b|encoder")
_MOST_TRIED: Final = 60_000
"""Names tried against expressions that look at a layer's number; more would take longer than a question may."""


@dataclass(slots=True)
class _Listed:
    """The plain names of one list by what stands behind the layer: in which layers, None for all of them."""

    layers: dict[str, set[int] | None] = field(default_factory=dict)

    def add(self, rest: str, layer: str | None) -> None:
        if layer is None or layer == "*":
            self.layers[rest] = None
        elif (known := self.layers.setdefault(rest, set())) is not None:
            known.add(int(layer))


@dataclass(slots=True)
class _Rule:
    """Consecutive rules for one format, gathered: plain names, names of no layer, and expressions."""

    format: str | None
    pointer: str
    inside: _Listed = field(default_factory=_Listed)
    outside: _Listed = field(default_factory=_Listed)
    patterns: list[Pattern] = field(default_factory=list)
    numbered: list[Pattern] = field(default_factory=list)
    every: bool = False


def module_formats(architecture: Architecture) -> dict[Module, tuple[tuple[Layers, str | None], ...]]:
    """The format of each module that a rule is for, by layers; None is 16 bits. What no rule names is absent.

    Raises ConfigError where a list holds an expression that is not known, or more of them than can be tried.
    """
    gathered = _gathered(architecture.format_rules)
    tried = _Tried()
    found = {}
    for module in architecture.modules:
        if module.kind is ModuleKind.HEAD or is_linear(module):
            parts = tuple(_parts(module, architecture.model_type, gathered, tried))
            if parts:
                found[module] = parts
    return found


class _Tried:
    """Counts the names tried, so that no config makes a question wait."""

    def __init__(self) -> None:
        self._left = _MOST_TRIED

    def count(self, names: int, pointer: str) -> None:
        self._left -= names
        if self._left < 0:
            raise ConfigError(Fault(pointer, "The list holds too many expressions; name the modules themselves."))


def _gathered(rules: Iterable[FormatRule]) -> list[_Rule]:
    gathered: list[_Rule] = []
    for rule in rules:
        if not gathered or (gathered[-1].format, gathered[-1].pointer) != (rule.format, rule.pointer):
            gathered.append(_Rule(rule.format, rule.pointer))
        _gather(gathered[-1], rule)
    return gathered


def _gather(into: _Rule, rule: FormatRule) -> None:
    if not rule.pattern:
        into.every = True
    elif rule.pattern.startswith(_EXPRESSION):
        _gather_pattern(into, rule.pattern.removeprefix(_EXPRESSION), rule)
    else:
        _gather_name(into, _WRAPPED.sub(_OWN, rule.pattern, count=1), rule)


def _gather_name(into: _Rule, name: str, rule: FormatRule) -> None:
    found = _LAYER.search(name)
    if _OTHER_TOWERS.search(name[: found.start()] if found else name):
        return
    if found is None and "*" in name:
        _gather_pattern(into, _starred(name), rule)
    elif found is None:
        into.outside.add(name.removeprefix(_OWN), None)
    else:
        rest = found[2] or ""
        if "*" in rest:
            _compiled(_starred(rest), rule.pointer)
        into.inside.add(rest, found[1])


def _gather_pattern(into: _Rule, expression: str, rule: FormatRule) -> None:
    pattern = _compiled(expression, rule.pointer)
    # An expression that names no digit says the same of every layer.
    (into.numbered if re.search(r"\d|\\d", expression) else into.patterns).append(pattern)


def _starred(text: str) -> str:
    """A name with stars as an expression: a star is anything, and what stands below the named is meant too."""
    return "".join(".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", text)) + r"(\..*)?$"


def _compiled(expression: str, pointer: str) -> Pattern:
    try:
        return compiled(expression)
    except PatternError as error:
        detail = f"The expression {expression[:60]!r} is not known here: {error}."
        raise ConfigError(Fault(pointer, detail)) from error


def _parts(module: Module, model_type: str, rules: list[_Rule], tried: _Tried) -> Iterator[tuple[Layers, str | None]]:
    """The module's layers by the first rule that names them; one outside the layers is as one in layer 0."""
    left: Layers = module.layers if module.place is Place.LAYERS else (0,)
    names = ("",) if module.kind is ModuleKind.HEAD else names_in_layer(module.name, module.kind, model_type)
    for rule in rules:
        chosen = _chosen(module, names, left, rule, tried)
        if chosen:
            yield chosen, rule.format
            gone = frozenset(chosen)
            left = tuple(layer for layer in left if layer not in gone)
        if not left:
            return


def _chosen(module: Module, names: tuple[str, ...], layers: Layers, rule: _Rule, tried: _Tried) -> Layers:
    if module.kind is ModuleKind.HEAD:
        return layers if _names_head(rule) else ()
    if rule.every or any(_holds(text, name) for text in rule.outside.layers for name in names):
        return layers
    tried.count(len(names) * (len(rule.patterns) + len(rule.numbered) * len(layers)), rule.pointer)
    if rule.patterns and _matches(tuple(rule.patterns), names, layers[0]):
        return layers
    listed = _listed_layers(rule.inside, names)
    if listed is None or not (listed or rule.numbered):
        return layers if listed is None else ()
    numbered = tuple(rule.numbered)
    return tuple(i for i in layers if i in listed or (numbered and _matches(numbered, names, i)))


def _names_head(rule: _Rule) -> bool:
    beginnings = ("", *_BEGINNINGS, "language_model.")
    return any(_holds(text, "lm_head") for text in rule.outside.layers) or any(
        pattern.matches(f"{beginning}lm_head") for pattern in rule.patterns for beginning in beginnings
    )


def _listed_layers(listed: _Listed, names: tuple[str, ...]) -> set[int] | None:
    """The layers for which one of the names is listed, or what it stands in; None for all."""
    found: set[int] = set()
    for rest, layers in listed.layers.items():
        if not rest or any(_begins(name, rest) for name in names):
            if layers is None:
                return None
            found |= layers
    return found


@lru_cache(maxsize=2048)
def _matches(patterns: tuple[Pattern, ...], names: tuple[str, ...], layer: int) -> bool:
    return any(
        pattern.matches(f"{beginning}layers.{layer}.{name}")
        for pattern in patterns
        for name in names
        for beginning in _BEGINNINGS
    )


def _begins(name: str, rest: str) -> bool:
    """Whether the listed part is the module or what holds it."""
    return _with_stars(rest).matches(name) if "*" in rest else f"{name}.".startswith(f"{rest}.")


@lru_cache(maxsize=512)
def _with_stars(rest: str) -> Pattern:
    return compiled(_starred(rest))


def _holds(text: str, name: str) -> bool:
    """Whether a listed name of no layer is part of a module's name: `gate` of `mlp.gate`, never of `gate_proj`."""
    return f".{text}." in f".{name}."
