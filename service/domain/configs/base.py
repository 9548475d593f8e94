"""What most decoders have in common, read once: sizes, heads, vocabulary, windows, routing, checkpoint type."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from service.domain.architecture import COMPUTE_TYPES, Architecture, CacheLayers, Module
from service.domain.configs import blocks
from service.domain.configs.blocks import Heads
from service.domain.configs.checkpoint import checkpoint_formats
from service.domain.configs.fields import LAYERS, MAX_LAYERS, Fields, shown
from service.domain.configs.rotary import rotary
from service.domain.errors import ConfigError, Fault, a_letter_away, pointer_step

QUERY_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups")
HIDDEN = ("hidden_size", "n_embd", "d_model")
CONTEXT = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "model_max_length",
)  # fmt: skip
FULL, SLIDING = "full_attention", "sliding_attention"
MAX_EXPERTS = 1 << 14

_STATED = (HIDDEN, LAYERS, QUERY_HEADS, ("vocab_size",))
# What changes the cache of the families that have it. A reader that never asks for one has no rule for it.
_CACHE_CHANGING = (
    "add_cross_attention", "attention_chunk_size", "attn_layer_indices", "attn_type_list", "block_configs",
    "compress_ratios", "cross_attention_layers", "full_attention_interval", "hybrid_layer_pattern",
    "hybrid_override_pattern", "index_topk", "is_encoder_decoder", "kv_lora_rank", "layer_types", "layers_block_type",
    "linear_attn_config", "mamba_d_state", "num_kv_shared_layers", "sliding_window_pattern", "sparse_attention_config",
    "sparse_config", "use_cla", "use_sliding_window", "v_head_dim",
)  # fmt: skip


class Decoder(NamedTuple):
    """The sizes nearly every decoder states."""

    layers: int
    hidden: int
    heads: Heads
    vocabulary: int
    tied: bool

    @property
    def all_layers(self) -> tuple[int, ...]:
        """Every layer's index."""
        return blocks.all_layers(self.layers)


def decoder(fields: Fields, *, tied: bool = False, head_dim: int | None = None, multi_head: bool = False) -> Decoder:
    """Read them; `tied` and `head_dim` are what the family's own code assumes where file and defaults are silent.

    `multi_head` is for families whose code knows one KV head for each query head and no other width than hidden size
    over heads, whatever a file says.
    """
    hidden = fields.integer(*HIDDEN)
    return Decoder(
        layers=fields.layers(),
        hidden=hidden,
        heads=equal_heads(fields, hidden) if multi_head else heads(fields, hidden, head_dim),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=tied),
    )


def heads(fields: Fields, hidden: int, head_dim: int | None = None) -> Heads:
    """Query and KV heads and their width: `head_dim` wins over hidden / heads wherever a file states it."""
    query = fields.integer(*QUERY_HEADS)
    kv = fields.integer(*KV_HEADS, default=query)
    return grouped(fields, query, kv, fields.integer("head_dim", default=head_dim or 0, least=0) or None, hidden)


def equal_heads(fields: Fields, hidden: int) -> Heads:
    """As many KV heads as query heads, which divide the hidden size."""
    query = fields.integer(*QUERY_HEADS)
    return grouped(fields, query, query, None, hidden)


def grouped(fields: Fields, query: int, kv: int, width: int | None, hidden: int) -> Heads:
    """Heads of which `query / kv` share one KV head, `hidden / query` wide unless a width is given.

    Refuses heads that do not divide.
    """
    if query % kv:
        raise fields.refuse(KV_HEADS[0], f"{query} query heads cannot share {kv} KV heads evenly.")
    if width is None:
        if hidden % query:
            detail = f"A hidden size of {hidden} does not divide into {query} heads, and there is no head_dim."
            raise fields.refuse(QUERY_HEADS[0], detail)
        width = hidden // query
    return Heads(query, kv, width, width)


def filled(fields: Fields, shape: Decoder) -> Decoder:
    """The shape, for families whose code divides the hidden size among the heads whatever a file says.

    Refuses a `head_dim` that says otherwise.
    """
    query, width = shape.heads.query, shape.heads.key_width
    if query * width != shape.hidden:
        raise fields.refuse("head_dim", f"{query} heads of {width} do not make a hidden size of {shape.hidden}.")
    return shape


def uniform_windows(fields: Fields, count: int, name: str = "sliding_window") -> tuple[int | None, ...]:
    """One window in every layer where the file has a number under `name`, else full attention.

    A window as long as the longest sequence of the model never closes and is full attention.
    """
    window = fields.optional(name)
    longest = fields.optional(*CONTEXT)
    return ((None if window is None or (longest and window >= longest) else window),) * count


def layer_windows(
    fields: Fields, count: int, unsaid: Callable[[int], bool], name: str = "sliding_window"
) -> tuple[int | None, ...]:
    """The window of each layer by `layer_types`; where the file has none, layers for which `unsaid` is true slide."""
    words = fields.choices("layer_types", (FULL, SLIDING), count)
    slides = [word == SLIDING for word in words] if words else [unsaid(layer) for layer in range(count)]
    window = fields.integer(name) if any(slides) else None
    return tuple(window if sliding else None for sliding in slides)


def routing(fields: Fields, count: tuple[str, ...], active: tuple[str, ...]) -> tuple[int, int]:
    """Routed experts of a layer and how many a token visits; refuses more visited than there are."""
    experts = fields.integer(*count, most=MAX_EXPERTS)
    visited = fields.integer(*active, most=MAX_EXPERTS)
    if visited > experts:
        raise fields.refuse(active[0], f"A token cannot visit {visited} of {experts} experts.")
    return experts, visited


def split(layers: tuple[int, ...], chosen: Callable[[int], bool]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers for which `chosen` is true, and the others."""
    return tuple(i for i in layers if chosen(i)), tuple(i for i in layers if not chosen(i))


def frame(shape: Decoder, norms: int = 2, *, biased: bool = False) -> list[Module]:
    """Token table and head, `norms` norms in each layer and one at the end; `biased` norms are twice as long.

    With 0 norms, norms have no weights, the last one neither.
    """
    modules = blocks.embedding(shape.vocabulary, shape.hidden, tied=shape.tied)
    if not norms:
        return modules
    vectors = 2 if biased else 1
    layer_norms = blocks.vector("layer_norms", shape.hidden, shape.all_layers, per_layer=norms * vectors)
    return [*modules, layer_norms, blocks.final_norm(shape.hidden, vectors)]


def architecture(
    fields: Fields, shape: Decoder, modules: list[Module], caches: tuple[CacheLayers, ...]
) -> Architecture:
    """Put the normal form together; refuses an option that changes the cache and that the reader never asked for."""
    _refuse_unread(fields)
    formats = checkpoint_formats(fields)
    context_tokens = fields.optional(*CONTEXT)
    return Architecture(
        model_type=fields.text("model_type") or "",
        layers=shape.layers,
        hidden_size=shape.hidden,
        query_heads=shape.heads.query,
        kv_heads=shape.heads.kv,
        vocabulary_size=shape.vocabulary,
        context_tokens=context_tokens,
        tied=shape.tied,
        modules=tuple(modules),
        caches=caches,
        torch_dtype=_stated_type(fields),
        weight_format=formats.weight,
        format_rules=formats.rules,
        cache_format=formats.cache,
        rotary=rotary(fields, context_tokens),
        assumptions=_assumed(fields),
        warnings=formats.warnings,
    )


def _stated_type(fields: Fields) -> str | None:
    """The type that the config says the model computes in; None where it leaves that to the checkpoint."""
    stated = (fields.text("dtype", "torch_dtype") or "auto").removeprefix("torch.")
    if stated == "auto":
        return None
    if stated not in COMPUTE_TYPES:
        name = "dtype" if fields.values.get("dtype") is not None else "torch_dtype"
        raise fields.refuse(name, f"{shown(stated)} is no type that models compute in: {', '.join(COMPUTE_TYPES)}.")
    return stated


def _refuse_unread(fields: Fields) -> None:
    for name in _CACHE_CHANGING:
        value = fields.values.get(name)
        if not value or name in fields.asked or _says_full(value):
            continue
        raise fields.refuse(name, f"This family has no rule for {name} {shown(value)}, which changes the cache.")


def _says_full(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MAX_LAYERS and all(word == FULL for word in value)


def _refuse_misspelt(fields: Fields, silent: list[str]) -> None:
    """A name that is not read, and is a letter away from a size that would be assumed, is taken for a slip."""
    for name in fields.values.keys() - fields.asked if silent else ():
        for meant in silent:
            if a_letter_away(name, meant):
                detail = f"There is no {shown(name)} in a config (did you mean {shown(meant)}?)."
                raise ConfigError(Fault(f"{fields.pointer}/{pointer_step(name)}", detail, (meant,)))


def _assumed(fields: Fields) -> tuple[str, ...]:
    values, defaults = fields.values, fields.defaults
    silent = [names for names in _STATED if not any(name in values for name in names)]
    _refuse_misspelt(fields, [name for names in silent for name in names])
    found = [(names[0], next((defaults[n] for n in names if n in defaults), None)) for names in silent]
    said = "the config is silent, the model code's own default"
    # A family that has another word for the field (decoder_attention_heads) assumes nothing under this one.
    return tuple(f"{name} {value}: {said}" for name, value in found if value is not None)
