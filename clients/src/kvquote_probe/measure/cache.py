"""The tensors that a model's cache is kept in, laid out as engines do: keys and values of each layer apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.form import CacheGroup, ModelForm
from kvquote_probe.measure.formats import CacheFormat, Row, indexer_row


@dataclass(frozen=True)
class Part:
    """What every layer of one kind allocates: tensors of [sequences, tokens, elements] of a torch type."""

    kind: str
    layers: int
    tokens: int
    """Rows that a sequence of the pool's length has here."""
    rows: tuple[Row, ...]
    window_tokens: int | None

    def bytes_of(self, sequences: int) -> int:
        """By arithmetic: what the tensors hold, without what an allocator adds."""
        row = sum(row.elements * _element_bytes(row.torch_name) for row in self.rows)
        return self.layers * sequences * self.tokens * row

    def as_arguments(self) -> dict[str, Any]:
        """For an experiment."""
        return asdict(self)

    @classmethod
    def from_arguments(cls, given: Mapping[str, Any]) -> Part:
        """As it was sent to an experiment."""
        return cls(**{**given, "rows": tuple(Row(**row) for row in given["rows"])})


def parts(form: ModelForm, keys: CacheFormat, values: CacheFormat, context_tokens: int) -> list[Part]:
    """The parts of a cache for sequences of that length."""
    if form.compressed:
        raise MeasureError(f"{form.name} keeps a vector for several tokens, which cannot be laid out from its shapes.")
    return [
        Part(group.kind, len(group.layers), _tokens(group, context_tokens), rows, group.window_tokens)
        for group in form.caches
        for rows in [tuple(_rows(form, group, keys, values))]
    ]


def _tokens(group: CacheGroup, context_tokens: int) -> int:
    return 1 if group.kind == "recurrent" else group.tokens_held(context_tokens)


def _rows(form: ModelForm, group: CacheGroup, keys: CacheFormat, values: CacheFormat) -> Iterator[Row]:
    if group.kind == "recurrent":
        yield Row("uint8", group.state_bytes)
    elif group.kind == "indexer":
        yield indexer_row(group.key_width)
    elif group.kind == "latent":
        compressed = latent_width(form, group)
        yield from keys.latent_rows(compressed, group.key_width - compressed)
    else:
        yield from keys.rows(group.key_elements)
        yield from values.rows(group.value_elements) if group.value_elements else ()


def latent_width(form: ModelForm, group: CacheGroup) -> int:
    """Elements of a latent vector that serve as values: what the expanding matrix takes in."""
    expanding = form.named("kv_b_proj")
    return expanding[0].columns if expanding else group.key_width


def allocated(part: Part, sequences: int, place: str) -> list[Any]:
    """Its tensors, one of each row for each layer, not yet touched."""
    import torch

    return [
        torch.empty(sequences, part.tokens, row.elements, dtype=getattr(torch, row.torch_name), device=place)
        for _ in range(part.layers)
        for row in part.rows
    ]


def _element_bytes(torch_name: str) -> int:
    return {"float32": 4, "bfloat16": 2, "float16": 2}.get(torch_name, 1)
