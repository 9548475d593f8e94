"""Speculative drafters that live in the target's own process: the cache layers they add (accounting 2.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.architecture import CacheLayers
from service.domain.cache.base import CacheKind
from service.domain.cache.recurrent import RecurrentCache
from service.domain.engines.prediction import predicted_layers
from service.domain.engines.versions import Release, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.domain.engines.vllm.setting import Setting

OWN_LAYERS = frozenset({"mtp", "deepseek_mtp", "qwen3_next_mtp", "qwen3_5_mtp", "ernie_mtp", "glm4_moe_mtp"})
"""Methods that draft with the checkpoint's own prediction layers."""
ONE_LAYER = frozenset({"eagle", "eagle3"})
"""Methods that draft with one more decoder layer."""
NO_LAYERS = frozenset({"ngram", "suffix", "ngram_gpu"})
"""Methods that draft without a model."""


class DrafterName(NamedTuple):
    """What a drafter's name holds, in lower case, the method that it tells, and since which release."""

    holds: str
    method: str
    since: Release


class DrafterNames(NamedTuple):
    """The names that tell a method, in the order in which the engine looks for them."""

    rows: tuple[DrafterName, ...]

    def method(self, name: str, release: Release) -> str | None:
        """The method of a drafter by its name alone; None where only its config could tell."""
        small = name.casefold()
        return next((row.method for row in self.rows if row.holds in small and row.since <= release), None)


def drafter_names(rows: Sequence[Mapping[str, Any]]) -> DrafterNames:
    """Read the catalog's rows; raises ValueError where a release is none."""
    return DrafterNames(tuple(DrafterName(row["holds"], row["method"], parse(row["since"])) for row in rows))


def drafted_layers(setting: Setting) -> int:
    """Layers that the drafter adds to the last stage."""
    method = setting.asked.speculative_method
    if method is None or method in NO_LAYERS:
        return 0
    return max(1, predicted_layers(setting.model.architecture)) if method in OWN_LAYERS else 1


def drafted_caches(setting: Setting) -> tuple[CacheLayers, ...]:
    """The drafter's caches: as the target's own attention that keeps whole sequences, one of each kind a layer."""
    count = drafted_layers(setting)
    if not count:
        return ()
    architecture = setting.model.architecture
    last = architecture.layers
    layers = tuple(range(last, last + count))
    if architecture.compressed:
        # Prediction layers of compressed attention attend within the window alone.
        return tuple(replace(o, layers=layers) for o in architecture.caches if o.spec.kind is CacheKind.SLIDING)
    return tuple(
        CacheLayers(owners.spec, layers, owners.query_heads)
        for owners in architecture.caches
        if not isinstance(owners.spec, RecurrentCache) and owners.spec.window_tokens is None
    )
