"""Decoder layers with random weights and a real cache, as `blocks` plans them. Used inside experiments only.

What engines fuse is one multiplication here too: queries, keys and values; gate and up. Rotary positions and
normalisations of heads are left out, which engines hide in other kernels. Weights are scaled by their inputs, so that
nothing overflows however many layers follow each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import ceil
from typing import Any, NamedTuple

from kvquote_probe.measure.blocks import Attention, FeedForward, LayerPlan

Tensor = Any
"""torch.Tensor; torch is not imported where nothing is measured."""

_DRAWN_ELEMENTS = 4_194_301
"""A prime."""


class Spread(NamedTuple):
    """Which tokens each of the touched experts gets: rows of token indices, as many as the busiest expert has."""

    tokens: list[list[int]]

    @property
    def touched(self) -> int:
        """Experts that have a token."""
        return len(self.tokens)

    @property
    def padding(self) -> float:
        """Work against what an even spread would need: the busiest expert sets the size of all."""
        return self.touched * len(self.tokens[0]) / len({token for row in self.tokens for token in row})


def spread(feed_forward: FeedForward, tokens: int, seed: int = 0) -> Spread:
    """A draw of experts for each token, even and without order, as a trained router's load balancing aims at.

    Touched experts are numbered from 0 on: their weights are random, so which of them they are does not matter, and
    they can be multiplied as one block. Rows are filled up with token 0: nobody looks at what it becomes.
    """
    drawn: dict[int, list[int]] = {}
    generator = random.Random(seed)  # noqa: S311  # a spread, no secret
    for token in range(tokens):
        for expert in generator.sample(range(feed_forward.experts), feed_forward.active):
            drawn.setdefault(expert, []).append(token)
    most = max(map(len, drawn.values()))
    return Spread([row + [0] * (most - len(row)) for row in drawn.values()])


def weight(rows: int, columns: int, kind: Any, place: str) -> Tensor:  # noqa: ANN401  # torch.dtype
    """A random matrix whose products keep the size of what they are multiplied with."""
    import torch

    made = torch.empty(rows, columns, dtype=kind, device=place)
    fill(made, columns**-0.5)
    return made


def fill(made: Tensor, scale: float = 1.0) -> None:
    """Normally distributed values, drawn for a block that is then repeated: drawing costs far more than copying.

    The block's size has no factor with the width of a matrix, so that rows differ.
    """
    flat = made.view(-1)
    filled = min(_DRAWN_ELEMENTS, flat.numel())
    flat[:filled].normal_(0.0, scale)
    while filled < flat.numel():
        more = min(filled, flat.numel() - filled)
        flat[filled : filled + more] = flat[:more]
        filled += more


class Layer:
    """One layer with weights and a cache of its own; `experts_kept` bounds how many experts are ever touched."""

    def __init__(self, plan: LayerPlan, kind: Any, place: str, *, cache_elements: int, experts_kept: int) -> None:  # noqa: ANN401  # torch.dtype
        import torch

        self._attention, self._feed, self.hidden_size = plan.attention, plan.feed_forward, plan.hidden_size
        a, d = plan.attention, plan.hidden_size
        self.cache = torch.empty(cache_elements, dtype=kind, device=place)
        widths = _input_widths(a)
        self._split = widths
        self._inputs = weight(sum(widths), d, kind, place)
        self._query = weight(a.heads * a.key_width, a.query_rank, kind, place) if a.query_rank else None
        self._output = weight(d, a.heads * a.value_width, kind, place)
        self._norms = torch.ones(2, d, dtype=kind, device=place)
        if a.latent_width:
            plain = a.key_width - a.rope_width
            self._expand_keys = weight(a.heads * plain, a.latent_width, kind, place).view(a.heads, plain, -1)
            self._expand_values = weight(a.heads * a.value_width, a.latent_width, kind, place).view(
                a.heads, -1, a.latent_width
            )
        self._build_feed_forward(kind, place, experts_kept)

    def _build_feed_forward(self, kind: Any, place: str, experts_kept: int) -> None:  # noqa: ANN401  # torch.dtype
        f, d = self._feed, self.hidden_size
        sides = 2 if f.gated else 1
        kept = min(f.experts, experts_kept)
        if f.experts:
            self._router = weight(f.experts, d, kind, place)
            self._experts_up = weight(kept * sides * f.width, d, kind, place).view(kept, sides * f.width, d)
            self._experts_down = weight(kept * d, f.width, kind, place).view(kept, d, f.width)
        width = f.shared_width if f.experts else f.width
        self._up: Tensor = weight(sides * width, d, kind, place) if width else None
        self._down: Tensor = weight(d, width, kind, place) if width else None

    def decode(self, hidden: Tensor, context_tokens: int, spread_tokens: Tensor | None) -> Tensor:
        """One token for each of [sequences, hidden]: reads the cache of that length and writes the token into it."""
        a = self._attention
        parts = (self._normed(hidden, 0) @ self._inputs.t()).split(self._split, dim=-1)
        held = a.tokens_read(context_tokens)
        attended = self._decode_latent(parts, held) if a.latent_width else self._decode_grouped(parts, held)
        return self._after(hidden, attended, parts, spread_tokens)

    def prefill(self, hidden: Tensor, spread_tokens: Tensor | None) -> Tensor:
        """All tokens of prompts, [prompts, tokens, hidden], as if they were the first."""
        parts = (self._normed(hidden, 0) @ self._inputs.t()).split(self._split, dim=-1)
        prompts, tokens, _ = hidden.shape
        keys, values = self._prompt_keys(parts, prompts, tokens)
        query = self._queries(parts).view(prompts, tokens, self._attention.heads, -1).transpose(1, 2)
        attended = _causal(query, keys, values, self._attention).transpose(1, 2).reshape(prompts, tokens, -1)
        return self._after(hidden, attended, parts, spread_tokens)

    def _queries(self, parts: tuple[Tensor, ...]) -> Tensor:
        return parts[0] if self._query is None else parts[0] @ self._query.t()

    def _decode_grouped(self, parts: tuple[Tensor, ...], held: int) -> Tensor:
        """A group's heads stand as rows of one query: the same sums, and keys and values are read once (probe 3.5)."""
        from torch.nn import functional

        a, sequences = self._attention, parts[0].shape[0]
        query = self._queries(parts).view(sequences, a.kv_heads, a.heads // a.kv_heads, a.key_width)
        sizes = [sequences * a.kv_heads * held * width for width in (a.key_width, a.value_width)]
        flat_keys, flat_values = self.cache[: sum(sizes)].split(sizes)
        keys = flat_keys.view(sequences, a.kv_heads, held, a.key_width)
        values = flat_values.view(sequences, a.kv_heads, held, a.value_width)
        keys[:, :, -1] = parts[1].view(sequences, a.kv_heads, a.key_width)
        values[:, :, -1] = parts[2].view(sequences, a.kv_heads, a.value_width)
        return functional.scaled_dot_product_attention(query, keys, values).reshape(sequences, -1)

    def _decode_latent(self, parts: tuple[Tensor, ...], held: int) -> Tensor:
        """Absorbed: queries are brought to the vector's width, and values are the vector's first part (probe 3.5).

        The vectors are read by two multiplications, where an engine's own kernel reads them once.
        """
        import torch

        a, sequences = self._attention, parts[0].shape[0]
        width = a.latent_width + a.rope_width
        vectors = self.cache[: sequences * held * width].view(sequences, held, width)
        vectors[:, -1] = parts[1]
        plain, rope = (
            self._queries(parts).view(sequences, a.heads, -1).split([a.key_width - a.rope_width, a.rope_width], -1)
        )
        absorbed = torch.bmm(plain.transpose(0, 1), self._expand_keys).transpose(0, 1)
        scores = torch.bmm(torch.cat((absorbed, rope), -1), vectors.transpose(1, 2)) * a.key_width**-0.5
        mixed = torch.bmm(scores.softmax(-1), vectors[:, :, : a.latent_width])
        return (
            torch.bmm(mixed.transpose(0, 1), self._expand_values.transpose(1, 2)).transpose(0, 1).reshape(sequences, -1)
        )

    def _prompt_keys(self, parts: tuple[Tensor, ...], prompts: int, tokens: int) -> tuple[Tensor, Tensor]:
        """Keys and values of [prompts, heads, tokens, width]; latent vectors are expanded for a prompt."""
        import torch

        a = self._attention
        if not a.latent_width:
            keys, values = (part.view(prompts, tokens, a.kv_heads, -1).transpose(1, 2) for part in parts[1:3])
            return keys, values
        compressed, rope = parts[1].split([a.latent_width, a.rope_width], -1)
        plain = torch.einsum("ptc,hnc->phtn", compressed, self._expand_keys)
        values = torch.einsum("ptc,hvc->phtv", compressed, self._expand_values)
        return torch.cat((plain, rope.unsqueeze(1).expand(-1, a.heads, -1, -1)), -1), values

    def _after(
        self, hidden: Tensor, attended: Tensor, parts: tuple[Tensor, ...], spread_tokens: Tensor | None
    ) -> Tensor:
        if self._attention.gate_width:
            attended = attended * parts[-1].sigmoid()
        hidden = hidden + attended @ self._output.t()
        return hidden + self._fed(self._normed(hidden, 1), spread_tokens)

    def _fed(self, hidden: Tensor, spread_tokens: Tensor | None) -> Tensor:
        import torch

        flat = hidden.reshape(-1, hidden.shape[-1])
        out = torch.zeros_like(flat) if self._up is None else self._active(flat @ self._up.t()) @ self._down.t()
        if spread_tokens is not None:
            out = out + self._routed(flat, spread_tokens)
        return out.view_as(hidden)

    def _routed(self, flat: Tensor, spread_tokens: Tensor) -> Tensor:
        """The router scores and picks as it would; which tokens go where was drawn before (see `spread`)."""
        import torch

        touched = spread_tokens.shape[0]
        shares = (flat @ self._router.t()).softmax(-1).topk(self._feed.active, -1).values.sum(-1, keepdim=True)
        gathered = flat[spread_tokens]
        up = self._active(torch.bmm(gathered, self._experts_up[:touched].transpose(1, 2)))
        down = torch.bmm(up, self._experts_down[:touched].transpose(1, 2))
        return torch.zeros_like(flat).index_add_(0, spread_tokens.flatten(), down.flatten(0, 1)) * shares

    def _active(self, up: Tensor) -> Tensor:
        from torch.nn import functional

        if not self._feed.gated:
            return functional.gelu(up)
        gate, value = up.chunk(2, -1)
        return functional.silu(gate) * value

    def _normed(self, hidden: Tensor, which: int) -> Tensor:
        from torch.nn import functional

        return functional.rms_norm(hidden, hidden.shape[-1:], self._norms[which])


def _input_widths(a: Attention) -> list[int]:
    """What the first multiplication of a layer gives: queries, keys and values, and a gate where there is one."""
    query = a.query_rank or a.heads * a.key_width
    if a.latent_width:
        return [query, a.latent_width + a.rope_width]
    gate = [a.gate_width] if a.gate_width else []
    return [query, a.kv_heads * a.key_width, a.kv_heads * a.value_width, *gate]


def _causal(query: Tensor, keys: Tensor, values: Tensor, a: Attention) -> Tensor:
    """Attention of prompts on themselves; within a window it goes block by block, so that nothing outside is scored."""
    import torch
    from torch.nn import functional

    grouped = query.shape[1] != keys.shape[1]
    tokens, window = query.shape[2], a.window_tokens
    if window is None or tokens <= window:
        return functional.scaled_dot_product_attention(query, keys, values, is_causal=True, enable_gqa=grouped)
    found = []
    for begin, end, first in _blocks(tokens, window, chunked=a.kind == "chunked"):
        mask = _banded(end - begin, end - first, window, query.device)
        # A group's heads stand as rows of one query: no kernel but the slow one takes a mask and groups together.
        block = query[:, :, begin:end].reshape(len(query), keys.shape[1], -1, query.shape[-1])
        mask = mask.repeat(query.shape[1] // keys.shape[1], 1)
        seen = functional.scaled_dot_product_attention(
            block, keys[:, :, first:end], values[:, :, first:end], attn_mask=mask
        )
        found.append(seen.reshape(*query.shape[:2], end - begin, -1))
    return torch.cat(found, 2)


def _blocks(tokens: int, window: int, *, chunked: bool) -> Iterator[tuple[int, int, int]]:
    """Begin and end of each block of queries, and the first key that any of them sees."""
    for number in range(ceil(tokens / window)):
        begin = number * window
        yield begin, min(tokens, begin + window), begin if chunked else max(0, begin - window + 1)


def _banded(queries: int, keys: int, window: int, place: Any) -> Tensor:  # noqa: ANN401  # torch.device
    """Which of the keys, of which the last is the last query's own, each query sees: itself and those before it."""
    import torch

    behind = torch.arange(keys, device=place) - torch.arange(keys - queries, keys, device=place).unsqueeze(1)
    return (behind <= 0) & (behind > -window)
