"""The sums over a checkpoint's tensors, kept while they are read so that no list of them is needed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NoReturn

from service.domain.errors import Fault, ValidationError
from service.domain.units import MAX_EXACT_INTEGER

MOST_HEADER_BYTES: Final = 64 << 20
"""Longer headers are refused unread: the greatest mixtures of experts have tables of 40 MB."""
MOST_TENSORS: Final = 1 << 20
MOST_DIMENSIONS: Final = 8
MOST_NAME_CHARACTERS: Final = 512

_HEADS: Final = frozenset({"lm_head.weight", "language_model.lm_head.weight", "output.weight"})
_OWN_LAYER = re.compile(r"(?:model\.|language_model\.|backbone\.|transformer\.)*(?:layers|h|blk)\.(\d{1,9})\.")
_PREDICTION = re.compile(r"(?:^|\.)(?:mtp|nextn)\b")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor as its header tells it; `type` is the file format's own word."""

    name: str
    type: str
    elements: int
    bytes: int


@dataclass(slots=True)
class TensorTable:
    """What the tensors of a checkpoint come to.

    `loaded_bytes` are all but the multi-token-prediction layers', which engines load for speculation alone;
    `head_bytes` those of an output head stored as a tensor of its own. `layers` are the indices that names of decoder
    layers bear. `file_type` is a GGUF file's own word for it.
    """

    loaded_bytes: int = 0
    prediction_bytes: int = 0
    head_bytes: int = 0
    tensors: int = 0
    bytes_by_type: dict[str, int] = field(default_factory=dict)
    layers: set[int] = field(default_factory=set)
    file_type: str | None = None

    def main_type(self) -> str | None:
        """The type that most of the bytes are in."""
        return max(self.bytes_by_type, key=self.bytes_by_type.__getitem__, default=None)


def gathered(
    tensors: Iterable[Tensor], layers: int, pointer: str, table: TensorTable | None = None, *, predicts: bool
) -> TensorTable:
    """Add tensors up; those behind the model's `layers` are prediction layers where the config has such.

    Raises ValidationError for more tensors, or more bytes, than any checkpoint has.
    """
    table = table or TensorTable()
    for tensor in tensors:
        table.tensors += 1
        own = _OWN_LAYER.match(tensor.name)
        if own:
            table.layers.add(int(own[1]))
        if predicts and is_prediction(tensor.name, layers):
            table.prediction_bytes += tensor.bytes
        else:
            table.loaded_bytes += tensor.bytes
            table.bytes_by_type[tensor.type] = table.bytes_by_type.get(tensor.type, 0) + tensor.bytes
        if tensor.name in _HEADS:
            table.head_bytes += tensor.bytes
    if table.tensors > MOST_TENSORS or table.loaded_bytes + table.prediction_bytes > MAX_EXACT_INTEGER:
        refuse(pointer, f"No checkpoint has so much: {table.tensors:,} tensors.")
    return table


def is_prediction(name: str, layers: int) -> bool:
    """Whether a tensor is of a multi-token-prediction layer, which stand behind a model's own or apart from them."""
    own = _OWN_LAYER.match(name)
    return int(own[1]) >= layers if own else _PREDICTION.search(name) is not None


def is_head(name: str) -> bool:
    """Whether a tensor is an output head."""
    return name in _HEADS


def refuse(pointer: str, detail: str) -> NoReturn:
    """Raise the refusal of a header at that place."""
    raise ValidationError(Fault(pointer, detail))
