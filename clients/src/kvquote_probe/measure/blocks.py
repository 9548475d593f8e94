"""Layers of a model as they can be built: attention and what follows it, worked out from the normal form's shapes.

The normal form says how many tensors of which shape there are and not how they are wired. What is built here are the
wirings of decoders that engines serve: grouped-query attention over full, sliding or chunked caches, absorbed latent
attention, and a gated or plain or routed feed-forward part. Everything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.form import CacheGroup, Matrix, ModelForm

_GROWING = ("full", "sliding", "chunked")
_UNLIKE = 0.05
"""Share by which the layers' own count may differ: norms, biases and small extras are left out."""


@dataclass(frozen=True)
class Attention:
    """Shapes of one attention: heads and widths; `latent_width` and the rest only where keys are compressed."""

    kind: str
    heads: int
    kv_heads: int
    key_width: int
    value_width: int
    window_tokens: int | None = None
    query_rank: int = 0
    """Width that queries pass through; 0 where they come from the hidden state at once."""
    gate_width: int = 0
    """Elements of a gate on the attention's output; 0 where there is none."""
    latent_width: int = 0
    rope_width: int = 0

    def tokens_read(self, context_tokens: int) -> int:
        """Tokens of a sequence that a decode step reads here."""
        if self.window_tokens is None:
            return context_tokens
        if self.kind == "chunked":
            return (context_tokens - 1) % self.window_tokens + 1
        return self.tokens_held(context_tokens)

    def tokens_held(self, context_tokens: int) -> int:
        """Tokens of a sequence that there has to be room for here."""
        return context_tokens if self.window_tokens is None else min(context_tokens, self.window_tokens)

    def pairs(self, prompt_tokens: int) -> int:
        """Pairs of a query and a key that a prompt scores here, each head for itself."""
        if self.kind == "chunked" and self.window_tokens:
            whole, rest = divmod(prompt_tokens, self.window_tokens)
            return whole * _triangle(self.window_tokens) + _triangle(rest)
        window = min(prompt_tokens, self.window_tokens or prompt_tokens)
        return _triangle(window) + (prompt_tokens - window) * window


@dataclass(frozen=True)
class FeedForward:
    """Shapes of what follows attention: `experts` 0 in a dense layer; `shared_width` of an expert that all visit."""

    width: int
    gated: bool
    experts: int = 0
    active: int = 0
    shared_width: int = 0

    def experts_touched(self, tokens: int) -> float:
        """Experts that so many tokens visit, each drawing its own evenly (perf_truth 2)."""
        return self.experts * (1 - (1 - self.active / self.experts) ** tokens) if self.experts else 0.0


@dataclass(frozen=True)
class LayerPlan:
    """Layers that are alike: how many the model has, and of what they are made."""

    layers: int
    hidden_size: int
    attention: Attention
    feed_forward: FeedForward
    sharers: int = 0
    """Of these layers, those that read another one's cache and own none."""

    def as_arguments(self) -> dict[str, Any]:
        """For an experiment."""
        return asdict(self)

    @classmethod
    def from_arguments(cls, given: Mapping[str, Any]) -> LayerPlan:
        """As it was sent to an experiment."""
        parts = {"attention": Attention(**given["attention"]), "feed_forward": FeedForward(**given["feed_forward"])}
        return cls(**{**given, **parts})

    @property
    def weight_elements(self) -> int:
        """Elements of one layer's matrices, all experts among them."""
        return self.elements_with(self.feed_forward.experts)

    def elements_with(self, experts: int) -> int:
        """Elements of one layer's matrices with so many of its experts."""
        a, f, d = self.attention, self.feed_forward, self.hidden_size
        query = a.heads * a.key_width
        total = a.query_rank * (d + query) if a.query_rank else query * d
        total += a.heads * a.value_width * d + a.gate_width * d
        if a.latent_width:
            expanded = a.heads * (a.key_width - a.rope_width + a.value_width)
            total += (a.latent_width + a.rope_width) * d + expanded * a.latent_width
        else:
            total += a.kv_heads * (a.key_width + a.value_width) * d
        each = (3 if f.gated else 2) * d
        return total + each * (f.width * (experts if f.experts else 1) + f.shared_width) + f.experts * d

    @property
    def cache_elements(self) -> int:
        """Elements that one token keeps in one layer."""
        a = self.attention
        return a.latent_width + a.rope_width if a.latent_width else a.kv_heads * (a.key_width + a.value_width)


def layer_plans(form: ModelForm) -> tuple[list[LayerPlan], list[str]]:
    """The kinds of layers that can be built, and sentences on what is left out or taken for granted.

    Raises:
        MeasureError: none can.
    """
    _refuse_unknown(form)
    groups = [group for group in form.caches if group.kind in {*_GROWING, "latent"}]
    notes = [
        f"{len(group.layers)} layers with a {group.kind} cache are not timed: their kernels are an engine's own"
        for group in form.caches
        if group not in groups
    ]
    plans = [
        LayerPlan(count, form.hidden_size, attention, feed_forward, min(count, len(group.shared_with)))
        for group in groups
        for layers in [len(group.layers) + len(group.shared_with)]
        for attention in [_attention(form, group, layers)]
        for count, feed_forward in _feed_forwards(form, layers, alone=len(form.caches) == 1, notes=notes)
    ]
    if not plans:
        raise MeasureError(f"{form.name} has no layer that can be built here: {'; '.join(notes)}.")
    _refuse_unlike(form, plans, whole=len(groups) == len(form.caches))
    return plans, list(dict.fromkeys(notes))


def _refuse_unknown(form: ModelForm) -> None:
    """Wirings that the normal form does not tell and torch has no kernels for."""
    if form.compressed or any(group.kind == "indexer" for group in form.caches):
        raise MeasureError(f"{form.name} picks or compresses the tokens it attends to, which no kernel of torch does.")
    stateful = {layer for group in form.caches if group.kind == "recurrent" for layer in group.layers}
    attending = {layer for group in form.caches if group.kind in _GROWING for layer in group.layers}
    if stateful & attending:
        raise MeasureError(f"{form.name} has attention and recurrent state in one layer, which cannot be built here.")
    parts = sum(count for count, _ in (*_routed(form), *_dense(form)))
    if parts and parts != form.layers:
        raise MeasureError(
            f"{form.name} has {parts} feed-forward parts for {form.layers} layers; which has which is unknown."
        )


def _refuse_unlike(form: ModelForm, plans: list[LayerPlan], *, whole: bool) -> None:
    """Layers put together wrongly have other weights than the model's; what is timed on them would not be its own."""
    built = sum(plan.layers * plan.weight_elements for plan in plans)
    known = sum(module.count * module.elements for module in form.modules if module.in_layers)
    if built > (1 + _UNLIKE) * known or (whole and built < (1 - _UNLIKE) * known):
        raise MeasureError(
            f"{form.name} is not made of such layers: they would have {built / known:.2f} times its parameters."
        )


def _attention(form: ModelForm, group: CacheGroup, layers: int) -> Attention:
    return _latent(form, group) if group.kind == "latent" else _grouped(form, group, layers)


def _grouped(form: ModelForm, group: CacheGroup, layers: int) -> Attention:
    """The projections of a group stand together in the reader's order; its keys' own shape says which they are."""
    keys = [
        at
        for at, module in enumerate(form.modules)
        if module.name == "k_proj" and module.rows == group.key_elements and module.count >= len(group.layers)
    ]
    if not keys:
        raise MeasureError(
            f"{form.name} has no k_proj for its {group.kind} caches, so its layers cannot be built here."
        )
    at = min(keys, key=lambda place: abs(form.modules[place].count - layers))
    query = _nearest(form, "q_proj", at)
    heads, rest = divmod(query.rows, group.key_width)
    if rest or heads % group.kv_heads or not group.value_width:
        raise MeasureError(
            f"{form.name}: {query.rows} query rows over keys of {group.key_width} are no heads in groups."
        )
    gates = form.named("q_gate")
    return Attention(
        group.kind, heads, group.kv_heads, group.key_width, group.value_width, group.window_tokens,
        gate_width=gates[0].rows if gates else 0,
    )  # fmt: skip


def _nearest(form: ModelForm, name: str, at: int) -> Matrix:
    places = [place for place, module in enumerate(form.modules) if module.name == name]
    if not places:
        raise MeasureError(f"{form.name} has no {name}, so its layers cannot be built here.")
    return form.modules[min(places, key=lambda place: abs(place - at))]


def _latent(form: ModelForm, group: CacheGroup) -> Attention:
    """Heads and widths follow from the shapes: expanded keys, values, and the part that carries positions."""
    expand, out = form.only("kv_b_proj"), form.only("o_proj")
    narrow = form.named("q_a_proj")
    query = form.only("q_b_proj" if narrow else "q_proj")
    compressed, rope = expand.columns, group.key_width - expand.columns
    plain = expand.rows - out.columns
    heads, rest = divmod(query.rows - plain, rope) if rope else (0, 1)
    if rest or heads < 1 or plain % heads or out.columns % heads:
        raise MeasureError(f"The latent attention of {form.name} cannot be told from its shapes.")
    return Attention(
        "latent", heads, 1, plain // heads + rope, out.columns // heads,
        query_rank=narrow[0].rows if narrow else 0, latent_width=compressed, rope_width=rope,
    )  # fmt: skip


def _feed_forwards(form: ModelForm, layers: int, *, alone: bool, notes: list[str]) -> Iterator[tuple[int, FeedForward]]:
    """Dense and routed layers, counted; where kinds of attention mix too, the more frequent stands for both."""
    found = [*_routed(form), *_dense(form)]
    if not found:
        raise MeasureError(f"{form.name} has no feed-forward part that can be built here.")
    if alone and sum(count for count, _ in found) == layers:
        yield from found
        return
    count, most = max(found, key=lambda each: each[0])
    if len(found) > 1:
        notes.append(f"all layers are taken for the {count} {'routed' if most.experts else 'dense'} ones")
    yield layers, most


def _routed(form: ModelForm) -> Iterator[tuple[int, FeedForward]]:
    routers = [module for module in form.modules if module.kind == "router" and module.rows > 1]
    downs = [module for module in form.modules if module.kind == "expert" and module.name.endswith("down_proj")]
    ups = [module for module in form.modules if module.kind == "expert" and module.name.endswith("gate_proj")]
    shared = [module for module in form.modules if module.kind == "shared_expert" and module.name.endswith("down_proj")]
    if routers and downs:
        experts = downs[0].count // routers[0].count
        active = round(experts * downs[0].active_share)
        width = shared[0].columns if shared else 0
        yield routers[0].count, FeedForward(downs[0].columns, bool(ups), experts, active, width)


def _dense(form: ModelForm) -> Iterator[tuple[int, FeedForward]]:
    for module in form.named("down_proj"):
        gates = [gate for gate in form.named("gate_proj") if gate.rows == module.columns]
        yield module.count, FeedForward(module.columns, bool(gates))


def _triangle(side: int) -> int:
    return side * (side + 1) // 2
