"""A model as the service describes it: its caches and weight matrices with their shapes. No torch needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvquote_probe.commands import MeasureError

_OUTSIDE_LAYERS = frozenset({"embedding", "position", "head", "vision", "audio", "encoder", "prediction"})
PREDICTION = "prediction"


@dataclass(frozen=True)
class CacheGroup:
    """Layers that own equal caches, as `cache_layers` has them."""

    kind: str
    layers: tuple[int, ...]
    kv_heads: int
    key_width: int
    value_width: int
    window_tokens: int | None
    state_bytes: int
    shared_with: tuple[int, ...]

    @property
    def key_elements(self) -> int:
        """Elements of one token's keys in one layer."""
        return self.kv_heads * self.key_width

    @property
    def value_elements(self) -> int:
        """Elements of one token's values in one layer."""
        return self.kv_heads * self.value_width

    def tokens_held(self, context_tokens: int) -> int:
        """Tokens of which a sequence of that length keeps rows."""
        if self.kind == "recurrent":
            return 0
        if self.kind == "cross":
            return self.window_tokens or 0
        return context_tokens if self.window_tokens is None else min(context_tokens, self.window_tokens)


@dataclass(frozen=True)
class Matrix:
    """Equal weight tensors of one role, each [rows, columns]."""

    name: str
    kind: str
    count: int
    rows: int
    columns: int
    active_share: float
    """Of those tensors, the share that one token uses."""

    @property
    def elements(self) -> int:
        """Elements of one of them."""
        return self.rows * self.columns

    @property
    def in_layers(self) -> bool:
        """Whether decoder layers are made of it."""
        return self.kind not in _OUTSIDE_LAYERS


@dataclass(frozen=True)
class ModelForm:
    """The normal form of a model, and how a question names it: `{"model": id}` or `{"config": {...}}`."""

    name: str
    question: Mapping[str, Any]
    caches: tuple[CacheGroup, ...]
    modules: tuple[Matrix, ...]
    weight_dtype: str
    context_tokens: int | None

    @classmethod
    def read(cls, document: Mapping[str, Any], question: Mapping[str, Any]) -> ModelForm:
        """From `GET /models/{id}` or `POST /models/inspect`; raises MeasureError where there is no normal form."""
        name = str(document.get("id") or document.get("architecture"))
        if not document.get("cache_layers") or not document.get("modules"):
            reason = document.get("unread_reason") or "It keeps no cache."
            raise MeasureError(f"The service has no normal form of {name} to measure: {reason}")
        return cls(
            name=name,
            question=question,
            caches=tuple(_cache(row) for row in document["cache_layers"]),
            modules=tuple(_matrix(row) for row in document["modules"]),
            weight_dtype=str(document["weight_dtype"]),
            context_tokens=document.get("context_tokens"),
        )

    @property
    def layers(self) -> int:
        """Decoder layers that own or read a cache."""
        return len({layer for group in self.caches for layer in (*group.layers, *group.shared_with)})

    @property
    def hidden_size(self) -> int:
        """Width of what passes from layer to layer."""
        return self.only("embed_tokens").columns

    @property
    def vocabulary_size(self) -> int:
        """Rows of the embedding table."""
        return self.only("embed_tokens").rows

    @property
    def compressed(self) -> bool:
        """Whether vectors of the cache stand for several tokens each, which the normal form does not tell apart."""
        return any(module.name.startswith("compressor.") for module in self.modules)

    def only(self, name: str) -> Matrix:
        """The module of that name; raises MeasureError where there is none."""
        found = self.named(name)
        if not found:
            raise MeasureError(f"{self.name} has no {name}, so its layers cannot be built here.")
        return found[0]

    def named(self, name: str) -> list[Matrix]:
        """All modules of that name, in the reader's order."""
        return [module for module in self.modules if module.name == name]


def _cache(row: Mapping[str, Any]) -> CacheGroup:
    return CacheGroup(
        kind=row["kind"],
        layers=tuple(row["layers"]),
        kv_heads=row["kv_heads"],
        key_width=row["key_width"],
        value_width=row["value_width"],
        window_tokens=row["window_tokens"],
        state_bytes=row["state_bytes"],
        shared_with=tuple(row["shared_with"]),
    )


def _matrix(row: Mapping[str, Any]) -> Matrix:
    rows, columns = row["shape"]
    share = row["active_per_token"] / row["parameters"] if row["parameters"] else 0.0
    return Matrix(row["name"], row["kind"], row["count"], rows, columns, share)
