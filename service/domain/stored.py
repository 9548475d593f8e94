"""The weights of one model in a number format: which modules are stored otherwise, and what its file holds.

A checkpoint's own format has exceptions that its config lists, and a GGUF file type gives every tensor a format by
rules. Both become one `StoredFormat`, made once for a model and kept in its memo.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from service.domain.architecture import ModuleKind
from service.domain.errors import Fault, NotSupported
from service.domain.format_rules import module_formats
from service.domain.gguf_mix import kept_format, layer_formats, shape_of, tensors_of
from service.domain.memo import remembered
from service.domain.precision import NumberFormat, WeightFormat
from service.domain.published_names import is_linear

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.gguf_mix import Mix
    from service.domain.model import Model

_EVERY_KIND: Final = frozenset(ModuleKind)
_WHOLE_MATRICES: Final = frozenset({ModuleKind.HEAD, ModuleKind.EMBEDDING, ModuleKind.POSITION})
_MOST_FALLBACKS: Final = 4
_MEMO: Final = "stored"
_PARTS_KEPT: Final = 512

_Layers: TypeAlias = tuple[int, ...] | frozenset[int]


class Formats(Protocol):
    """Where number formats are looked up: a catalog at one revision."""

    @property
    def revision(self) -> int:
        """The revision that every format of it belongs to."""

    def format(self, name: str, pointer: str = "/weight_dtype") -> NumberFormat:
        """The number format of that name or alias; raises ValidationError at the pointer."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The layers of a module that are in one format."""

    layers: _Layers
    number: WeightFormat


@dataclass(frozen=True, slots=True, eq=False)
class StoredFormat(WeightFormat):
    """A weight format with exceptions: of a module that is in `parts`, only they count, and hold all its layers."""

    parts: Mapping[Module, tuple[Part, ...]] = field(default_factory=dict)

    @property
    def uniform_bits(self) -> None:
        """None: parameters differ."""
        return None  # a value of the property, and not the want of one

    def of(self, module: Module) -> WeightFormat:
        """The format that a module is in, in its first layer."""
        parts = self.parts.get(module)
        return parts[0].number if parts else self

    def held_bytes(self, module: Module, rows: int, columns: int, layers: Sequence[int]) -> int:
        """Bytes of a [rows, columns] part of each of the layers' matrices of a module; one a layer."""
        parts = self.parts.get(module)
        if parts is None:
            return len(layers) * self.matrix_bytes(rows, columns, module.kind)
        if len(parts) == 1:
            return len(layers) * parts[0].number.matrix_bytes(rows, columns, module.kind)
        return sum(
            sum(map(part.layers.__contains__, layers)) * part.number.matrix_bytes(rows, columns, module.kind)
            for part in parts
        )


def weights_for(number: NumberFormat, model: Model, catalog: Formats) -> WeightFormat:
    """The model's weights in a format: as the file type's rules, the checkpoint's own lists or its file say.

    Lists and file count only while `number` is the checkpoint's own format. What rules, lists and file make is kept in
    the model's memo for the revision.
    Raises NotSupported for a format that no weights are stored in, ConfigError for lists that cannot be read.
    """
    if number.weight is not None and number.mix is None and number.name != model.checkpoint_format:
        return number.weight
    key = (_MEMO, number, catalog.revision)
    found: WeightFormat = model.memo.get(key) or remembered(model, key, lambda: _weights(number, model, catalog))
    return found


def _weights(number: NumberFormat, model: Model, catalog: Formats) -> WeightFormat:
    own = number.name == model.checkpoint_format
    if number.mix is not None:
        stored: WeightFormat = _mixed(number.name, number.mix, model.architecture, catalog)
    elif number.weight is None:
        detail = f"{number.name} is not a format that weights can be quoted in."
        raise NotSupported(Fault("/weight_dtype", detail))
    else:
        stored = _with_rules(number.weight, model, catalog) if own else number.weight
    return replace(stored, file_bytes=model.weight_bytes) if own and model.weight_bytes else stored


def _with_rules(number: WeightFormat, model: Model, catalog: Formats) -> WeightFormat:
    """The checkpoint's format with what its config lists, and over it what the catalog says of whole kinds."""
    architecture = model.architecture
    if number.ideal or not (architecture.format_rules or model.kind_formats):
        return number
    exactly = _Exact(number, catalog)
    parts = {
        module: tuple([_part(_own(module, layers), exactly.format(name)) for layers, name in found])
        for module, found in module_formats(architecture).items()
    }
    for module in architecture.modules:
        name = model.kind_formats.get(module.kind)
        if name is not None and (is_linear(module) or module.kind in _WHOLE_MATRICES):
            parts[module] = _alone(_layers(module), exactly.format(name))
    return _stored(number, {module: _whole(module, own, number) for module, own in parts.items()})


class _Exact:
    """Formats for whatever kind of module they are said of, each made once."""

    def __init__(self, number: WeightFormat, catalog: Formats) -> None:
        self._made: dict[str | None, WeightFormat] = {
            None: replace(number, quantizes=frozenset()),
            number.name: replace(number, quantizes=_EVERY_KIND),
        }
        self._catalog = catalog

    def format(self, name: str | None) -> WeightFormat:
        """The format of that name; None is 16 bits."""
        found = self._made.get(name)
        if found is None and name is not None:
            found = self._made[name] = _for_all_kinds(name, self._catalog)
        return found or self._made[None]


def _whole(module: Module, parts: tuple[Part, ...], number: WeightFormat) -> tuple[Part, ...]:
    """The parts, with the layers that none of them has in the format's own way."""
    left = frozenset(_layers(module)).difference(*(part.layers for part in parts))
    if left:
        return (*parts, _part(left, number))
    return parts if len(parts) > 1 else _alone(parts[0].layers, parts[0].number)


def _mixed(name: str, mix: Mix, architecture: Architecture, catalog: Formats) -> WeightFormat:
    shape = shape_of(architecture)
    parts: dict[Module, tuple[Part, ...]] = {}
    base = _for_all_kinds(mix.base, catalog)
    for module in architecture.modules:
        kept = kept_format(module)
        if kept is not None:
            parts[module] = _alone(_layers(module), _for_all_kinds(kept, catalog))
            continue
        found = layer_formats(mix, tensors_of(architecture, module), shape)
        own = [(_own(module, layers), _fitting(kind, module.columns, catalog)) for kind, layers in found.items()]
        parts[module] = _alone(*own[0]) if len(own) == 1 else tuple([_part(*each) for each in own])
    return _stored(replace(base, name=name), parts)


def _fitting(name: str, columns: int, catalog: Formats) -> WeightFormat:
    """The format, or the one that a row of so many columns falls back to."""
    number = _for_all_kinds(name, catalog)
    for _ in range(_MOST_FALLBACKS):
        if columns % number.group_columns == 0 or number.fallback is None:
            break
        number = _for_all_kinds(number.fallback, catalog)
    return number


def _for_all_kinds(name: str, catalog: Formats) -> WeightFormat:
    found = catalog.format(name).weight
    if found is None:
        raise NotSupported(Fault("/weight_dtype", f"{name} is not a format that weights can be quoted in."))
    return _everywhere(found)


@lru_cache(maxsize=_PARTS_KEPT)
def _everywhere(number: WeightFormat) -> WeightFormat:
    return replace(number, quantizes=_EVERY_KIND)


@lru_cache(maxsize=_PARTS_KEPT)
def _part(layers: _Layers, number: WeightFormat) -> Part:
    """One for all modules with the same layers in the same format: a worker keeps thousands of them."""
    return Part(layers, number)


@lru_cache(maxsize=_PARTS_KEPT)
def _alone(layers: _Layers, number: WeightFormat) -> tuple[Part, ...]:
    """The same of one part that is all of its module."""
    return (_part(layers, number),)


def _layers(module: Module) -> tuple[int, ...]:
    return module.layers or (0,)


def _own(module: Module, layers: Collection[int]) -> _Layers:
    """The layers, to be looked up; where they are all of the module's, its own tuple, which takes nothing more."""
    own = _layers(module)
    return own if len(layers) == len(own) else frozenset(layers)


def _stored(number: WeightFormat, parts: Mapping[Module, tuple[Part, ...]]) -> StoredFormat:
    values: dict[str, Any] = {own.name: getattr(number, own.name) for own in fields(WeightFormat)}
    return StoredFormat(**values, parts=parts)
