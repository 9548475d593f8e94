"""The buffer that a device computes one pass in: as much of its graph as is alive at once (accounting 4.2).

What is alive when was read off the reservations of builds themselves, made on a device with memory and no arithmetic
(tests/data/llama_compute.yaml). Each phase keeps so many vectors for every token of the pass; the largest one counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind, Shard
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.engines.llama_cpp.layers import HostWork
from service.domain.memo import remembered
from service.domain.units import up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.domain.architecture import Architecture, Module
    from service.domain.engines.llama_cpp.rules import ComputeRule
    from service.domain.model import Model

_FLOAT_BYTES = 4
_DENSE = (ModuleKind.MLP, ModuleKind.SHARED_EXPERT)


class Shapes(NamedTuple):
    """Elements a token: of a vector between layers, of what a layer makes of it, and of all heads together.

    `inner` is the width of a dense layer's middle and `routed` that of all experts that a token visits, each with how
    many matrices lead there (2 where one of them is a gate); `mixed` is alive while a state is carried on, `latent`
    while compressed keys and values are attended.
    """

    hidden: int
    vocabulary: int
    inner: int
    inner_matrices: int
    routed: int
    routed_matrices: int
    experts: int
    heads: int
    queries: int
    keys: int
    mixed: int
    latent: int


class Pass(NamedTuple):
    """One pass: its tokens, those whose logits are kept, the cells that masks are for, and the most scores a head.

    `copies` are those of its inputs, `widened_bytes` what a layer's cache takes in 16 bits beside its own type. What
    stays on the host is worked off too, so that there is room for `host_layer_bytes` of matrices of one layer there,
    and for `host_head_bytes` of the output matrix; `host` is the same of builds that copy matrices one by one,
    and `routed` whether the device has experts of its own.
    """

    tokens: int
    outputs: int
    mask_cells: int
    score_cells: int
    copies: int = 1
    widened_bytes: int = 0
    host_layer_bytes: int = 0
    host_head_bytes: int = 0
    host: HostWork = HostWork()
    routed: bool = True


def compute_bytes(model: Model, rule: ComputeRule, run: Pass, *, fused: bool) -> int:
    """Bytes of the largest phase of a pass, and of further copies of its inputs."""
    shapes = shapes_of(model)
    mask = run.mask_cells * (rule.mask_bytes if fused else _FLOAT_BYTES)
    attending = _attending(shapes, rule, run) if fused else _scores(shapes, rule, run)
    experts = _experts(shapes, rule) if run.routed else 0
    layer = _FLOAT_BYTES * max(_dense(shapes, rule), experts, shapes.mixed, shapes.latent) + mask
    more = (run.copies - 1) * run.tokens * _FLOAT_BYTES * shapes.hidden
    phases = (
        _logits(shapes, run) + more,
        run.tokens * layer + run.host_layer_bytes + rule.inputs * more + (run.copies - 1) * run.tokens * mask,
        run.tokens * attending
        + _widened(shapes, rule, run)
        + rule.inputs * more
        + (run.copies - 1) * run.tokens * mask,
        *_off_the_host(shapes, rule, run, layer, attending),
    )
    return max(phases)


def _off_the_host(shapes: Shapes, rule: ComputeRule, run: Pass, layer: int, attending: int) -> Iterator[int]:
    """Phases that work off what the host keeps: a matrix beside what goes in and comes out, a layer's cache as a whole.

    Experts' products are there with the middle of those that a token visits, and four vectors between layers. Where
    only what leads out of a middle is on the host, it is beside a whole layer (`layer` bytes a token).
    """
    host, mask = run.host, run.mask_cells * rule.mask_bytes
    for into, out, middles, one in (
        (host.experts_in, host.experts_out, shapes.routed_matrices * shapes.routed + 4 * shapes.hidden, shapes.routed),
        (host.dense_in, host.dense_out, shapes.inner_matrices * shapes.inner + rule.vectors * shapes.hidden, 0),
    ):
        if into:
            yield into + host.output + run.tokens * (_FLOAT_BYTES * middles + mask)
        if out and into:
            vectors = one + (shapes.experts + 4) * shapes.hidden if one else middles
            yield out + run.tokens * (_FLOAT_BYTES * vectors + mask)
        elif out:
            yield out + run.tokens * layer
    if host.cell:
        vectors = 2 * shapes.queries + (rule.vectors - 3) * shapes.hidden
        yield host.cell * run.score_cells + run.tokens * (attending + _FLOAT_BYTES * vectors)


def _logits(shapes: Shapes, run: Pass) -> int:
    if not run.outputs:
        return 0
    return _FLOAT_BYTES * (run.outputs * shapes.vocabulary + run.tokens * shapes.hidden) + run.host_head_bytes


def mask_cells(spans: Iterable[int | None], cells: int, pad: int, kept_beside_window: int) -> int:
    """Cells that one token's masks are for: all of them, and those of a window where layers have one, each once."""
    found = set(spans)
    kept = [up(span + kept_beside_window, pad) for span in found if span is not None]
    return (cells if None in found else 0) + max((min(cells, each) for each in kept), default=0)


def _dense(shapes: Shapes, rule: ComputeRule) -> int:
    """What leads to the middle of a layer, the middle itself where it has a place of its own, and vectors beside it."""
    widths = shapes.inner_matrices + rule.products if shapes.inner_matrices > 1 else shapes.inner_matrices
    return widths * shapes.inner + rule.vectors * shapes.hidden


def _experts(shapes: Shapes, rule: ComputeRule) -> int:
    """The same of experts, or their middle with what comes out of each, before and after it is weighed."""
    if not shapes.routed:
        return 0
    into = (shapes.routed_matrices + rule.products) * shapes.routed + rule.vectors * shapes.hidden
    return max(into, shapes.routed + 2 * (shapes.experts + 1) * shapes.hidden)


def _attending(shapes: Shapes, rule: ComputeRule, run: Pass) -> int:
    """Bytes a token while attention is fused: masks in both widths where a build casts them."""
    return run.mask_cells * (rule.mask_bytes + rule.cast_bytes) + 2 * _FLOAT_BYTES * shapes.hidden


def _widened(shapes: Shapes, rule: ComputeRule, run: Pass) -> int:
    """A layer's cache in 16 bits, with the vectors that are alive while it is made."""
    vectors = (rule.vectors - 1) * _FLOAT_BYTES * shapes.hidden * run.tokens
    return run.widened_bytes + vectors if run.widened_bytes else 0


def _scores(shapes: Shapes, rule: ComputeRule, run: Pass) -> int:
    """Bytes a token while scores of every head are there: queries, what they give, and keys and values to be stored."""
    vectors = (rule.vectors - 1) * shapes.hidden + 2 * shapes.queries + rule.stored * shapes.keys
    return _FLOAT_BYTES * (shapes.heads * run.score_cells + run.mask_cells + vectors)


def shapes_of(model: Model) -> Shapes:
    """The model's shapes, remembered with it."""
    found: Shapes = remembered(model, "llama-shapes", lambda: _shapes(model.architecture))
    return found


def _shapes(architecture: Architecture) -> Shapes:
    dense = max((_middle(architecture.modules, kind) for kind in _DENSE), key=lambda each: each[0] * each[1])
    expert, matrices = _middle(architecture.modules, ModuleKind.EXPERT)
    attending = [owners for owners in architecture.caches if owners.spec.attends]
    plain = [owners for owners in attending if not isinstance(owners.spec, LatentCache)]
    return Shapes(
        hidden=architecture.hidden_size,
        vocabulary=architecture.vocabulary_size,
        inner=dense[0],
        inner_matrices=dense[1],
        routed=architecture.experts[1] * expert,
        routed_matrices=matrices,
        experts=architecture.experts[1],
        heads=max((owners.query_heads for owners in attending), default=0),
        queries=max((owners.query_heads * owners.spec.key_width for owners in plain), default=0),
        keys=max((owners.spec.kv_heads * owners.spec.key_width for owners in plain), default=0),
        mixed=max((_mixed(architecture, owners.spec) for owners in architecture.caches), default=0),
        latent=max((_latent(architecture, owners.spec, owners.query_heads) for owners in attending), default=0),
    )


def _middle(modules: Iterable[Module], kind: ModuleKind) -> tuple[int, int]:
    """The widest middle of a kind's layers, and how many matrices lead there."""
    found = [m for m in modules if m.kind is kind and m.columns > 1 and m.shard is Shard.ROWS]
    widest = max((m.rows for m in found), default=0)
    first = next((m.layers[:1] for m in found if m.rows == widest), ())
    return widest, sum(m.rows for m in found if m.layers[:1] == first) // widest if widest else 0


def _mixed(architecture: Architecture, spec: object) -> int:
    """What leads into a mixer, its convolution's inputs before and after, and three of its inner width."""
    if not isinstance(spec, RecurrentCache) or not spec.conv_columns:
        return 0
    mixers = [m for m in architecture.modules if m.kind is ModuleKind.MIXER and m.columns == architecture.hidden_size]
    into = sum(m.rows for m in mixers if m.shard is not Shard.COLUMNS)
    inner = spec.kv_heads * spec.head_channels
    return into + 2 * (spec.conv_elements // spec.conv_columns) + 3 * inner


def _latent(architecture: Architecture, spec: object, heads: int) -> int:
    """Queries as they are and beside the latent vector, what attention gives, and vectors beside them."""
    if not isinstance(spec, LatentCache):
        return 0
    queries = [m.rows for m in architecture.modules if m.kind is ModuleKind.ATTENTION and m.name.startswith("q_")]
    return heads * (spec.key_width + spec.read_width) + max(queries, default=0) + 5 * architecture.hidden_size
