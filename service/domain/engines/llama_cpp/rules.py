"""The rules of one build of llama.cpp, each a figure or a choice that the catalog dates and gives its evidence for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotRule:
    """Slots where nobody sets them, and whether all slots share one buffer: by default, and where slots are asked."""

    slots: int
    unified: bool
    unified_where_asked: bool


@dataclass(frozen=True, slots=True)
class CellRule:
    """Cells come in multiples of `pad`; families whose windowed layers keep a window, in multiples of their own."""

    pad: int
    window_pad: int
    windows: frozenset[str]


@dataclass(frozen=True, slots=True)
class LatentRule:
    """What latent attention keeps: keys and values of all `heads`, the vector and its `values`, or its `keys`.

    `indexed` are the families whose indexers have keys in a cache of the asked type.
    """

    kept: str
    indexed: frozenset[str]


@dataclass(frozen=True, slots=True)
class ComputeRule:
    """Tokens of one pass, whether logits are kept for all of them, and whether attention is fused by default.

    While a layer is computed, `vectors` of the width between layers are alive, and `products` more of the width of its
    middle than matrices lead there; before scores that are not fused, `stored` vectors of keys and values. A token's
    mask takes `mask_bytes` a cell with fused attention, and `cast_bytes` more where it is cast for it. Over several
    devices there are `copies` of the masks and of `inputs` vectors, so that these work on passes side by side. Where it
    `widens`, fused attention keeps a layer's cache of another type in 16 bits beside it. Matrices that stay on the host
    are copied to the first device one by one where it takes them `apart`, else all of a layer together.
    """

    ubatch_tokens: int
    all_outputs: bool
    fused: bool
    vectors: int
    products: int
    stored: int
    mask_bytes: int
    cast_bytes: int
    copies: int
    inputs: int
    widens: bool
    apart: bool
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FitRule:
    """What a start leaves free on each device by moving layers and experts to the host, 0 where it moves nothing."""

    margin_bytes: int


@dataclass(frozen=True, slots=True)
class OffloadRule:
    """Whether the output matrix is the first to go to a device or the last."""

    output_first: bool


@dataclass(frozen=True, slots=True)
class Constants:
    """Figures that no build has changed so far; the span is low, middle and high, in bytes."""

    runtime: tuple[int, int, int]
    cache_default: str
    cache_types: frozenset[str]
    wide_cache_types: frozenset[str]
    state_element_bytes: int
    weight_types: dict[str, str]
    file_types: frozenset[str]
    otherwise: str


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Everything that depends on the build; itself a key of what follows from it."""

    name: str
    note: str | None
    slots: SlotRule
    cells: CellRule
    latent: LatentRule
    compute: ComputeRule
    fitting: FitRule
    offload: OffloadRule
    constants: Constants
