"""From a published config, and what its files' headers hold, to the facts of a catalog entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from service.domain.architecture import ModuleKind
from service.domain.errors import Fault, ValidationError
from service.domain.files.index import Index
from service.domain.files.table import Tensor, TensorTable, gathered
from service.domain.model import Model, from_config
from service.domain.stored import weights_for
from service.domain.units import ceil_div
from service.domain.weights import whole_model

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.precision import WeightFormat
    from service.domain.stored import Formats

_PLAIN_TYPES: Final[Mapping[str, str]] = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}
_SLUG_END: Final = re.compile(r"-hf$")
_NOT_IN_SLUGS: Final = re.compile(r"[^a-z0-9._-]+")
_LEAST_SHARE, _MOST_SHARE = 0.5, 2.0
"""A file of less than half or more than twice what the config's shapes come to is another model's, or a part."""


@dataclass(frozen=True, slots=True)
class Naming:
    """How the entry is called, and what a config does not say of a model; `checked` is the day, as text."""

    hub_id: str
    checked: str
    name: str | None = None
    family: str | None = None
    licence: str = "unknown"
    aliases: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The last part of the hub id in lower case, without a trailing -hf."""
        return _SLUG_END.sub("", _NOT_IN_SLUGS.sub("-", self.hub_id.rpartition("/")[2].lower()))


@dataclass(slots=True)
class _Names:
    """How many tensors went by, and a mark of their names in any order; no list of them is kept."""

    count: int = 0
    mark: int = 0

    def of(self, tensors: Iterable[Tensor]) -> Iterator[Tensor]:
        """The tensors as they come."""
        for tensor in tensors:
            self.count += 1
            self.mark ^= hash(tensor.name)
            yield tensor


class Checkpoint:
    """A config being imported, and the sums over its tensors as headers come in."""

    def __init__(self, config: Mapping[str, Any], catalog: Formats) -> None:
        """Read the config; raises as `from_config` does."""
        self.config = config
        self.model: Model = from_config(config)
        self._catalog = catalog
        self._table: TensorTable | None = None
        self._index: Index | None = None
        self._pointer = "/config"
        self._headers: dict[tuple[int, int], str] = {}

    @property
    def layers(self) -> int:
        """Decoder layers, behind which tensors are prediction layers'."""
        return self.model.architecture.layers

    def add_tensors(self, tensors: Iterable[Tensor], pointer: str, file_type: str | None = None) -> None:
        """Take the tensors of one header; a checkpoint in several files has one each.

        Raises ValidationError for one that was taken already, which would count its tensors twice.
        """
        predicts = bool(_predicted(self.model.architecture))
        names = _Names()
        self._table = gathered(names.of(tensors), self.layers, pointer, self._table, predicts=predicts)
        same = self._headers.setdefault((names.count, names.mark), pointer)
        if names.count and same != pointer:
            raise ValidationError(Fault(pointer, f"Its tensors are those of {same}: give each file's header once."))
        self._table.file_type = file_type or self._table.file_type
        self._pointer = pointer

    def set_index(self, index: Index, pointer: str) -> None:
        """Take the sums of an index."""
        self._index = index
        self._pointer = pointer

    def facts(self, naming: Naming) -> dict[str, Any]:
        """The entry's facts in the catalog's schema; raises ValidationError where files and config do not match."""
        number = self._number()
        counted = whole_model(self.model.architecture, number).bytes
        held = self._held_bytes(number)
        if held is not None:
            self._compare(held, counted)
        self._find_layers()
        architecture = self.model.architecture
        return {
            "id": naming.id,
            "hub_id": naming.hub_id,
            "name": naming.name or naming.hub_id.rpartition("/")[2],
            "aliases": list(naming.aliases),
            "family": naming.family or architecture.model_type,
            "licence": naming.licence,
            "released": None,
            "context_tokens": self.model.context_tokens,
            "config": dict(self.config),
            "checkpoint": self._checkpoint(number.name, held, counted),
            "parameters": {
                "count": architecture.parameters,
                "status": "computed",
                "published": None,
                "active": architecture.active_parameters,
            },
            "provenance": self._provenance(naming, held),
        }

    def _number(self) -> WeightFormat:
        """The checkpoint's format: its file's own word, the config's, or the plain type most of the file is in."""
        table = self._table
        for name in (table.file_type if table else None, self.model.architecture.weight_format, self._plain()):
            found = self._format(name) if name else None
            if found is not None:
                return found
        return self._format(self.model.checkpoint_format) or self._refuse("Its type is none that the catalog knows.")

    def _format(self, name: str) -> WeightFormat | None:
        self.model = replace(self.model, checkpoint_format=name, memo={})
        try:
            return weights_for(self._catalog.format(name), self.model, self._catalog)
        except ValidationError:
            return None

    def _plain(self) -> str | None:
        """What the file's most used type is in the catalog; GGUF's own types bear its names."""
        main = self._table.main_type() if self._table else None
        return _PLAIN_TYPES.get(main, main.lower()) if main else None

    def _held_bytes(self, number: WeightFormat) -> int | None:
        if self._table is not None:
            return self._table.loaded_bytes
        if self._index is None:
            return None
        return _without_predicted(self._index, self.model.architecture, number)

    def _compare(self, held: int, counted: int) -> None:
        if not _LEAST_SHARE * counted <= held <= _MOST_SHARE * counted:
            self._refuse(
                f"It holds {held:,} bytes, and the config's shapes come to about {counted:,}: it is of another model, "
                "or not the whole of it. Give the headers of all files."
            )

    def _find_layers(self) -> None:
        """Refuse a file that lacks layers which the config says have weights, where its names tell layers at all."""
        named = self._table.layers if self._table else set()
        owned = {
            layer for m in self.model.architecture.modules if m.kind is not ModuleKind.PREDICTION for layer in m.layers
        }
        lacking = sorted(owned - named) if named else []
        if lacking:
            count = f"{len(lacking):,} of {len(owned):,} layers, the first of them {lacking[0]}"
            self._refuse(f"It holds nothing of {count}: it is not the whole model. Give the headers of all files.")

    def _refuse(self, detail: str) -> NoReturn:
        raise ValidationError(Fault(self._pointer, detail))

    def _checkpoint(self, dtype: str, held: int | None, counted: int) -> dict[str, Any]:
        own = self.model.architecture.weight_format
        source = "published" if self._table and own is None else "config"
        found = {
            "dtype": dtype,
            "dtype_source": source,
            "weight_bytes": held,
            "weight_bytes_estimate": None if held else counted,
        }
        types = sorted(self._table.bytes_by_type.items()) if self._table else []
        by_type = {name: size for name, size in types if size}
        return {**found, "bytes_by_type": by_type} if by_type else found

    def _provenance(self, naming: Naming, held: int | None) -> dict[str, Any]:
        read = "config.json" if held is None else "config.json and the headers of its files"
        notes = " ".join(self._notes(held))
        return {
            "checked": naming.checked,
            "confidence": "medium" if held is None else "high",
            "sources": [f"{naming.hub_id}: {read}, imported"],
            "notes": notes,
        }

    def _notes(self, held: int | None) -> Iterable[str]:
        architecture, table, index = self.model.architecture, self._table, self._index
        if held is None:
            yield "Weights are counted from the config's shapes."
            return
        tensors = table.tensors if table else index.tensors if index else 0
        yield f"Weights are what {tensors:,} tensors hold."
        if table and table.prediction_bytes:
            yield f"Prediction layers, {table.prediction_bytes:,} bytes more, are kept apart."
        if index and index.predicts:
            yield "The index also counts prediction layers, whose share is taken off by the config's shapes."
        head = table.head_bytes if table else 0
        if architecture.tied and (head or (index and index.head)):
            size = f", {head:,} bytes" if head else ""
            yield f"The output head is stored though it is tied to the table{size}: an engine may leave it out."


def _predicted(architecture: Architecture) -> int:
    return sum(m.parameters for m in architecture.modules if m.kind is ModuleKind.PREDICTION)


def _without_predicted(index: Index, architecture: Architecture, number: WeightFormat) -> int:
    """An index's total without prediction layers, which it counts and whose bytes it does not tell."""
    predicted = [m for m in architecture.modules if m.kind is ModuleKind.PREDICTION]
    if not (index.predicts and predicted):
        return index.total_bytes
    stored = replace(number, quantizes=number.quantizes | {ModuleKind.PREDICTION})
    # Copies of table and head stay in 16 bits, as those of the model do.
    plain = [m.rows == architecture.vocabulary_size for m in predicted]
    apart = sum(
        m.per_layer * (number if table else stored).held_bytes(m, m.rows, m.columns, (0,))
        for m, table in zip(predicted, plain, strict=True)
    )
    main = whole_model(architecture, number).bytes
    return ceil_div(index.total_bytes * main, main + apart)
