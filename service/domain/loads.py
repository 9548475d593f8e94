"""What the ranks of a layout have to hold: weights once, and the cache of each sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from service.domain.architecture import ModuleKind
from service.domain.memo import remembered
from service.domain.parallel import ONE_GPU, Layout, layers_within, stage_layers
from service.domain.units import ceil_div, whole
from service.domain.weights import RankWeights, rank_weights, stage_shapes, weights_in

if TYPE_CHECKING:
    from collections.abc import Hashable

    from service.domain.architecture import Architecture, CacheLayers
    from service.domain.cache.base import CacheSpec
    from service.domain.model import Model
    from service.domain.precision import CacheFormat, WeightFormat


_ATTENTION = frozenset({ModuleKind.ATTENTION, ModuleKind.CROSS_ATTENTION, ModuleKind.INDEXER, ModuleKind.MIXER})
_FORMATS_KEPT: Final = 32
_WHOLE: Final = (ONE_GPU.tensor, ONE_GPU.pipeline, ONE_GPU.expert)
# What formats come to in one layout, RankWeights or terms: by themselves for one stage, else a tuple with one a stage.
_Placed: TypeAlias = "dict[WeightFormat | CacheFormat, Any]"


@dataclass(frozen=True, slots=True)
class CacheTerm:
    """One kind of cache over the layers that own it, in whole bytes for one sequence.

    `bytes_per_token` is what a held token takes, of which a sequence holds at most `window_tokens`, in steps of
    `row_tokens`; `growing_bytes` is the same for kinds that grow and 0 for the others, whose size is all in
    `fixed_bytes`. `readers` are the layers that read it, those that own none of their own among them; `score_flops` is
    their work of one query token against one token that it reads, `prefill_flops` the same while a prompt is read.
    """

    spec: CacheSpec
    layers: int
    bytes_per_token: int
    growing_bytes: int
    window_tokens: int | None
    row_tokens: int
    fixed_bytes: int
    readers: int
    score_flops: int
    prefill_flops: int

    @property
    def kind(self) -> str:
        """The kind of the wire contract."""
        return str(self.spec.kind)

    def held(self, tokens: int) -> int:
        """Tokens held of a sequence of that length."""
        return self.spec.tokens_held(tokens)

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of one sequence of that length."""
        return self.fixed_bytes + (self.growing_bytes * self.held(tokens) if self.growing_bytes else 0)

    def read_bytes(self, tokens: int) -> int:
        """Bytes that one decode step of such a sequence reads: a shared cache once for each layer that reads it."""
        if not self.growing_bytes:
            return self.fixed_bytes
        return self.fixed_bytes + self._read(self.spec.tokens_read(tokens))

    def shared_read_bytes(self, tokens: int, prefix: int) -> int:
        """Bytes of them that are read once for all sequences."""
        return self._read(self.spec.tokens_shared_read(tokens, prefix)) if prefix and self.growing_bytes else 0

    def _read(self, tokens: int) -> int:
        return self.growing_bytes * tokens * self.readers // self.layers

    def grows_at(self, tokens: int) -> bool:
        """Whether a longer sequence takes more bytes."""
        return self.growing_bytes > 0 and (self.window_tokens is None or tokens < self.window_tokens)

    def prefix_bytes(self, tokens: int, prefix: int) -> int:
        """Bytes that a shared prefix still takes in a sequence of that length, stored once for all."""
        return self.growing_bytes * self.spec.tokens_shared(tokens, prefix) if self.growing_bytes else 0


class RankLoad(NamedTuple):
    """The fullest rank of a pipeline stage."""

    index: int  # type: ignore[assignment]  # tuple.index, which nobody asks of a load
    stage: int
    weight_bytes: int
    weights: RankWeights
    terms: tuple[CacheTerm, ...]

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of one sequence on this rank."""
        total = 0
        for term in self.terms:
            total += term.fixed_bytes
            if term.growing_bytes:
                window = term.window_tokens
                held = tokens if window is None or tokens < window else window
                total += term.growing_bytes * (held if term.row_tokens == 1 else held - held % term.row_tokens)
        return total

    def prefix_bytes(self, tokens: int, prefix: int) -> int:
        """Bytes of a shared prefix on this rank."""
        return sum(term.prefix_bytes(tokens, prefix) for term in self.terms) if prefix else 0

    def growth_bytes(self, tokens: int) -> int:
        """Bytes that one more token takes at that length."""
        return sum([term.growing_bytes for term in self.terms if term.grows_at(tokens)])

    def longest(self, pool_bytes: int) -> int | None:
        """The longest sequence whose cache fits the pool; None where a longer one takes no more."""
        free, rate, start = pool_bytes, 0, 0
        windows = []
        for term in self.terms:
            free, rate = free - term.fixed_bytes, rate + term.growing_bytes
            if term.window_tokens and term.growing_bytes:
                windows.append((term.window_tokens, term.growing_bytes))
        for window, bytes_per_token in sorted(windows):
            if rate * (window - start) > free:
                break
            free -= rate * (window - start)
            rate, start = rate - bytes_per_token, window
        if free < 0:
            return 0
        return self._past_rows(start + free // rate, pool_bytes) if rate else None

    def _past_rows(self, tokens: int, pool_bytes: int) -> int:
        """Tokens that still wait for their row take nothing: up to a row's worth more than a constant rate says."""
        for longer in range(tokens + 1, tokens + max([term.row_tokens for term in self.terms])):
            if self.sequence_bytes(longer) <= pool_bytes:
                tokens = longer
        return tokens


def whole_load(model: Model, weights: WeightFormat, cache: CacheFormat) -> RankLoad:
    """The whole model on one rank: what the unsharded figures of an answer are taken from."""
    return rank_loads(model, weights, cache, ONE_GPU)[0]


def whole_weights(model: Model, weights: WeightFormat) -> RankWeights:
    """The weights of that load, where nothing is asked of its cache."""
    placed: _Placed = model.memo.get(_WHOLE) or remembered(model, _WHOLE, dict)
    held: RankWeights = placed.get(weights) or _placed_weights(placed, weights, model.architecture, ONE_GPU)
    return held


def rank_loads(model: Model, weights: WeightFormat, cache: CacheFormat, layout: Layout) -> tuple[RankLoad, ...]:
    """The fullest rank of each stage: it follows from shapes alone, and its two halves are kept in the model's memo.

    They are kept one by one, since most levers change one of them alone: to join them takes less than a place for each
    pair would.
    """
    key = (layout.tensor, layout.pipeline, layout.expert)
    placed: _Placed = model.memo.get(key) or remembered(model, _same(key), dict)
    held = placed.get(weights) or _placed_weights(placed, weights, model.architecture, layout)
    terms = placed.get(cache) or _placed_terms(placed, cache, model.architecture, layout)
    if layout.pipeline == 1:
        return (RankLoad(0, 0, held.bytes, held, terms),)
    return tuple(
        [
            RankLoad(stage * layout.tensor, stage, own.bytes, own, kept)
            for stage, (own, kept) in enumerate(zip(held, terms, strict=True))
        ]
    )


class Replicated(NamedTuple):
    """Bytes that all ranks of a replica hold beyond one copy of the model, of weights and of each sequence.

    Copies: matrices and caches that are whole on every rank, KV heads beyond their number, a tied table on both ends of
    a pipeline; and what ranks are rounded up by, each counted as the fullest of its stage.
    """

    weight_bytes: int
    sequence_bytes: int


def replicated(
    loads: tuple[RankLoad, ...], one: RankLoad, tensor: int, tokens: int, context_ranks: int = 1
) -> Replicated:
    """What the ranks of `loads` hold together beyond `one`, which holds everything, for sequences of `tokens`.

    `context_ranks` of the `tensor` ranks share each sequence out among them.
    """
    held = tensor * sum(load.weight_bytes for load in loads) - one.weight_bytes
    kept = tensor // context_ranks * sum(load.sequence_bytes(tokens) for load in loads) - one.sequence_bytes(tokens)
    return Replicated(max(0, held), max(0, kept))


@lru_cache(maxsize=256)
def _same(key: tuple[int, int, bool]) -> tuple[int, int, bool]:
    """One key for all models in the same layout."""
    return key


def _placed_weights(placed: _Placed, weights: WeightFormat, architecture: Architecture, layout: Layout) -> Any:  # noqa: ANN401  # see _Placed
    held = weights_in(weights, stage_shapes(architecture, layout), architecture)
    return _kept(placed, weights, _single(held))


def _placed_terms(placed: _Placed, cache: CacheFormat, architecture: Architecture, layout: Layout) -> Any:  # noqa: ANN401  # see _Placed
    """A stage's terms follow from how many layers of each kind it has."""
    stages, owned = stage_layers(architecture.layers, layout.pipeline), architecture.caches
    counts = [tuple([len(layers_within(owners.layers, stage)) for owners in owned]) for stage in stages]
    made = {each: _terms(owned, cache, each, layout.tensor) for each in set(counts)}
    return _kept(placed, cache, _single(tuple([made[each] for each in counts])))


def _single(stages: tuple[Hashable, ...]) -> Hashable:
    """The only stage by itself; of several, equal ones as one object."""
    if len(stages) == 1:
        return stages[0]
    made: dict[Hashable, Hashable] = {}
    return tuple([made.setdefault(stage, stage) for stage in stages])


def _kept(placed: _Placed, number: WeightFormat | CacheFormat, made: Hashable) -> Hashable:
    """What was made, kept for its format: as one object for formats of the same widths."""
    made = next((kept for kept in tuple(placed.values()) if kept == made), made)
    if len(placed) >= _FORMATS_KEPT:
        placed.clear()
    placed[number] = made
    return made


def _terms(
    owned: tuple[CacheLayers, ...], cache: CacheFormat, counts: tuple[int, ...], tensor: int
) -> tuple[CacheTerm, ...]:
    pairs = zip(owned, counts, strict=True)
    return tuple([_term(owners, cache, count, tensor) for owners, count in pairs if count])


@lru_cache(maxsize=512)
def _on_rank(spec: CacheSpec, tensor: int) -> CacheSpec:
    """One for all formats, and for all models with the same heads."""
    return spec.on_rank(tensor)


def _term(owners: CacheLayers, cache: CacheFormat, count: int, tensor: int) -> CacheTerm:
    spec = owners.spec if tensor == 1 else _on_rank(owners.spec, tensor)
    heads = ceil_div(owners.query_heads, tensor)
    readers = count + ceil_div(len(owners.shared_with) * count, len(owners.layers))
    score, prefill = readers * spec.score_flops(heads), readers * spec.prefill_flops(heads)
    row = whole(count * spec.row_bytes(cache))
    constant = spec.tokens_held(0)
    window = spec.window_tokens
    return CacheTerm(
        spec=spec,
        layers=count,
        bytes_per_token=row,
        growing_bytes=0 if constant else row,
        window_tokens=window,
        row_tokens=getattr(spec, "tokens_per_row", 1),
        fixed_bytes=count * spec.fixed_bytes + row * constant,
        readers=readers,
        score_flops=score,
        prefill_flops=score if prefill == score else prefill,  # one object where they are equal, as mostly
    )


def attention_loads(
    model: Model, weights: WeightFormat, cache: CacheFormat, layout: Layout, groups: int
) -> tuple[RankLoad, ...]:
    """The fullest rank of each stage where so many groups of its ranks run the attention of sequences of their own.

    Attention's matrices and caches are divided by fewer ranks then, so a rank reads more of them; what it multiplies
    with them for a replica's batch stays the same.
    """
    if groups == 1:
        return rank_loads(model, weights, cache, layout)
    key, make = (weights, cache, layout, groups), lambda: _grouped(model, weights, cache, layout, groups)
    found: tuple[RankLoad, ...] = remembered(model, key, make)
    return found


def _grouped(
    model: Model, weights: WeightFormat, cache: CacheFormat, layout: Layout, groups: int
) -> tuple[RankLoad, ...]:
    fewer = replace(layout, tensor=max(1, layout.tensor // groups))
    only = replace(model.architecture, modules=tuple(m for m in model.architecture.modules if m.kind in _ATTENTION))
    shapes = replace(weights, file_bytes=None)
    own, alike = (rank_weights(only, shapes, where) for where in (fewer, layout))
    loads, kept = (rank_loads(model, weights, cache, where) for where in (layout, fewer))
    return tuple(
        load._replace(
            weights=replace(load.weights, read_bytes=load.weights.read_bytes + here.read_bytes - there.read_bytes),
            terms=each.terms,
        )
        for load, each, here, there in zip(loads, kept, own, alike, strict=True)
    )


def scaled(loads: tuple[RankLoad, ...], weight_bytes: int, whole_bytes: int) -> tuple[RankLoad, ...]:
    """The loads with a weight size of the question's own, spread over the ranks as the model's weights are."""
    return tuple(
        RankLoad(
            load.index, load.stage, ceil_div(load.weight_bytes * weight_bytes, whole_bytes), load.weights, load.terms
        )
        for load in loads
    )
