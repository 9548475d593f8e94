"""The normal form of a model: its weight modules and its cache layers, with every shape (reference: accounting 1, 6).

A reader in `configs/` makes one from a published config; weights, caches, traffic and the probe need nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from service.domain.cache.base import CacheSpec


@unique
class ModuleKind(StrEnum):
    """What a weight module does; a number format says which kinds it quantizes."""

    EMBEDDING = "embedding"
    POSITION = "position"
    HEAD = "head"
    ATTENTION = "attention"
    CROSS_ATTENTION = "cross_attention"
    INDEXER = "indexer"
    MIXER = "mixer"
    MLP = "mlp"
    EXPERT = "expert"
    SHARED_EXPERT = "shared_expert"
    ROUTER = "router"
    NORM = "norm"
    BIAS = "bias"
    VISION = "vision"
    AUDIO = "audio"
    ENCODER = "encoder"
    PREDICTION = "prediction"


@unique
class Shard(StrEnum):
    """How tensor parallelism divides a module."""

    REPLICATED = "replicated"
    ROWS = "rows"
    COLUMNS = "columns"
    KV_ROWS = "kv_rows"
    """By KV heads, which are replicated once there are more ranks than heads."""


@unique
class Place(StrEnum):
    """Which pipeline stages hold a module."""

    LAYERS = "layers"
    FIRST = "first"
    LAST = "last"
    BOTH_ENDS = "both_ends"
    """A tied embedding: gathered from on the first stage, multiplied with on the last."""


# Found once, since Python 3.11 calls a function for each member of an enumeration: they are asked of every module.
_LAYERS: Final = Place.LAYERS
_PREDICTION: Final = ModuleKind.PREDICTION
_EXPERT: Final = ModuleKind.EXPERT

# What published configs call the types that a model computes in, and what they are called here.
COMPUTE_TYPES: Final = {
    "float16": "fp16",
    "half": "fp16",
    "fp16": "fp16",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "fp32": "fp32",
}


@dataclass(frozen=True, slots=True)
class Module:
    """Equal weight tensors of one role, each [rows, columns] (a vector has one column).

    `layers` are the indices that own it, ascending (empty outside the layers); `per_layer` how many each owns, of which
    a token uses `active_per_layer`; `heads` the number of heads that its divided side is made of, where heads decide.
    """

    name: str
    kind: ModuleKind
    rows: int
    columns: int
    layers: tuple[int, ...] = ()
    per_layer: int = 1
    active_per_layer: int = 1
    shard: Shard = Shard.REPLICATED
    place: Place = Place.LAYERS
    heads: int = 0

    @property
    def count(self) -> int:
        """How many such tensors the model has."""
        return self.per_layer * (len(self.layers) if self.place is _LAYERS else 1)

    @property
    def active_count(self) -> int:
        """How many of them one token uses."""
        return self.active_per_layer * (len(self.layers) if self.place is _LAYERS else 1)

    @property
    def elements(self) -> int:
        """Elements of one tensor."""
        return self.rows * self.columns

    @property
    def parameters(self) -> int:
        """Elements of all of them."""
        return self.count * self.elements


@dataclass(frozen=True, slots=True)
class CacheLayers:
    """Layers, ascending, that own the same kind and shape of cache, and the query heads that read it."""

    spec: CacheSpec
    layers: tuple[int, ...]
    query_heads: int
    shared_with: tuple[int, ...] = ()
    """Layers that read this cache without owning one."""


class FormatRule(NamedTuple):
    """Modules that a checkpoint stores otherwise than the rest, as its config names them.

    `pattern` is a dotted name, one with stars, or `re:` and an expression; empty, it is every linear module of the
    decoder. `format` is a number format of the catalog, None for 16 bits; `pointer` where the config says so.
    """

    pattern: str
    format: str | None
    pointer: str


class Rotary(NamedTuple):
    """What the tables of rotary positions hold beside one row of the whole key width for each position."""

    share: float = 1.0
    """Share of the key width that is rotated."""
    stretch: float = 1.0
    """Rows to the published longest sequence, where the positions are scaled."""
    pictures: bool = False
    """Whether positions also run over the width, height and time of pictures."""
    local: bool = False
    """Whether windowed layers rotate by a base of their own: a second table, over the published positions."""
    short_tokens: int | None = None
    """Of models with two sets of frequencies: the longest sequence that takes those of the shorter one."""


_WHOLE_KEYS = Rotary()


@dataclass(frozen=True, eq=False)
class Architecture:
    """A model's shapes: `layers` counts decoder layers, `context_tokens` is the published longest sequence."""

    model_type: str
    layers: int
    hidden_size: int
    query_heads: int
    kv_heads: int
    vocabulary_size: int
    context_tokens: int | None
    tied: bool
    modules: tuple[Module, ...]
    caches: tuple[CacheLayers, ...]
    torch_dtype: str | None = None
    weight_format: str | None = None
    """The checkpoint's own number format where its quantization_config names one."""
    format_rules: tuple[FormatRule, ...] = ()
    """Which modules that format is not for; of several rules for a module the first counts."""
    cache_format: str | None = None
    """The cache format that the checkpoint's own scheme asks for."""
    rotary: Rotary = _WHOLE_KEYS
    whole_pictures: bool = False
    """Whether the tokens of a picture attend both ways, so that no batch may cut it."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def parameters(self) -> int:
        """Parameters of the model code: a tied head once, no multi-token-prediction layers."""
        return sum(m.parameters for m in self.modules if m.kind is not _PREDICTION)

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one token uses: all but the routed experts it does not visit."""
        return sum(m.active_count * m.elements for m in self.modules if m.kind is not _PREDICTION)

    @cached_property
    def compressed(self) -> bool:
        """Whether several tokens share one row of some caches."""
        return any(getattr(owners.spec, "tokens_per_row", 1) > 1 for owners in self.caches)

    @cached_property
    def kinds(self) -> frozenset[ModuleKind]:
        """Every kind of module that the model has."""
        return frozenset(module.kind for module in self.modules)

    @cached_property
    def attention_heads(self) -> int:
        """Query heads of all attention layers together, those that read another layer's cache among them."""
        heads = {layer: c.query_heads for c in self.caches if c.spec.attends for layer in (*c.layers, *c.shared_with)}
        return sum(heads.values())

    @cached_property
    def head_elements(self) -> int:
        """Elements of the output head, or of the table that serves as one."""
        return sum(m.elements for m in self.modules if m.kind is ModuleKind.HEAD or m.place is Place.BOTH_ENDS)

    @cached_property
    def experts(self) -> tuple[int, int]:
        """Routed experts of a layer and how many of them a token visits; (0, 0) in a dense model."""
        routed = [m for m in self.modules if m.kind is _EXPERT]
        return (routed[0].per_layer, routed[0].active_per_layer) if routed else (0, 0)

    @cached_property
    def expert_layers(self) -> int:
        """Layers with routed experts."""
        return len({layer for m in self.modules if m.kind is _EXPERT for layer in m.layers})

    @cached_property
    def expert_parameters(self) -> int:
        """Parameters of one routed expert of a layer, among those that words visit."""
        experts = [m for m in self.modules if m.kind is _EXPERT and m.active_per_layer]
        first = experts[0].layers[:1] if experts else ()
        return sum(m.elements for m in experts if m.layers[:1] == first)

    @cached_property
    def query_width(self) -> int:
        """Elements of one token's queries in the widest attention layer."""
        return max((c.query_heads * c.spec.key_width for c in self.caches if c.spec.attends), default=self.hidden_size)

    @cached_property
    def state_elements(self) -> dict[str, int]:
        """Elements of the recurrent states of all layers, by what computes them."""
        states: dict[str, int] = {}
        for each in self.caches:
            mixer, elements = each.spec.carried
            if elements:
                states[mixer] = states.get(mixer, 0) + len(each.layers) * elements
        return states

    @cached_property
    def key_elements(self) -> int:
        """Elements of the widest key of a head; 0 where all keys are latent or nothing attends."""
        return max((c.spec.key_width for c in self.caches if c.spec.attends and c.spec.value_width), default=0)

    @cached_property
    def divided_sizes(self) -> tuple[int, int]:
        """What a tensor-parallel size has to divide: of all modules, and with the routed experts left whole.

        Heads where a module is made of them, else its divided side. Tables of positions and tables outside the layers
        are rounded up instead, KV heads replicated, and encoders of pictures and sounds stand whole where they cannot
        be divided.
        """
        sides = [(m.kind, _divided_side(m)) for m in self.modules if m.place is _LAYERS and m.kind not in _UNSPLIT]
        dense = gcd(self.query_heads, *(side for kind, side in sides if kind is not _EXPERT))
        return gcd(dense, *(side for kind, side in sides if kind is _EXPERT)), dense


_UNSPLIT = frozenset(
    {ModuleKind.POSITION, ModuleKind.VISION, ModuleKind.AUDIO, ModuleKind.ENCODER, ModuleKind.PREDICTION}
)


def _divided_side(module: Module) -> int:
    """0, which every number divides, where tensor parallelism leaves the module whole or replicates its heads."""
    if module.shard is Shard.ROWS:
        return module.heads or module.rows
    if module.shard is Shard.COLUMNS:
        return module.heads or module.columns
    return 0
