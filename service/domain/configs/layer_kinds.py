"""Which layer does what, by the words that hybrid families list one of for each layer."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.configs.fields import MAX_LAYERS, Fields

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
LINEAR, HYBRID, CONVOLUTION, INDEXED = "linear_attention", "hybrid", "conv", "indexed_attention"
_OLDER: Mapping[str, tuple[str, ...]] = {
    LINEAR: ("mamba",),
    FULL: ("attention",),
    INDEXED: ("deepseek_sparse_attention",),
}


def listed(fields: Fields, names: tuple[str, ...], known: tuple[str, ...], count: int) -> tuple[str, ...] | None:
    """The word of each of `count` layers under the first of the names that the file has, or None.

    Older files call the same layers `mamba`, `attention` or `deepseek_sparse_attention`.
    """
    older = {old: word for word in known for old in _OLDER.get(word, ())}
    found = [words for name in names if (words := fields.choices(name, (*known, *older), count)) is not None]
    return tuple(older.get(word, word) for word in found[0]) if found else None


def length(fields: Fields, *names: str) -> int | None:
    """How many layers the first present list of words names; None where there is none, or nothing to count."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list | tuple | str) and value:
            if len(value) > MAX_LAYERS:
                raise fields.refuse(name, f"{name} lists more than {MAX_LAYERS} layers.")
            return len(value)
    return None


def of(words: tuple[str, ...], *wanted: str) -> tuple[int, ...]:
    """The layers with one of the wanted words."""
    return tuple(layer for layer, word in enumerate(words) if word in wanted)
