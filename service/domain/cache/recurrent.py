"""State of a fixed size that a layer carries on from token to token (accounting 1, the table of element counts)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import TYPE_CHECKING, ClassVar, Self

from service.domain.cache.base import CacheKind, CacheSpec, heads_on_rank

if TYPE_CHECKING:
    from service.domain.precision import CacheFormat


@unique
class Mixer(StrEnum):
    """What computes the state; engines keep some in other types than others."""

    MAMBA1 = "mamba1"
    MAMBA2 = "mamba2"
    GATED_DELTA = "gdn"
    KIMI_DELTA = "kda"
    LIGHTNING = "lightning"
    SHORT_CONVOLUTION = "shortconv"
    COMPRESSOR = "compressor"


@dataclass(frozen=True, slots=True)
class RecurrentCache(CacheSpec):
    """`kv_heads` states of [key_width, value_width], and the last inputs of a short convolution.

    The convolution runs over `head_channels` channels of each head and `group_channels` of each of `groups` groups,
    and keeps `conv_columns` inputs of each (its kernel less one, as engines do; they add one for each speculative
    token). Groups are replicated once there are more ranks than groups. `state_type_named` says that the file itself
    names the type that a server is to keep the state in.
    """

    mixer: Mixer
    kv_heads: int
    key_width: int
    value_width: int
    conv_columns: int
    head_channels: int
    groups: int = 0
    group_channels: int = 0
    state_element_bytes: int = 2
    conv_element_bytes: int = 2
    state_type_named: bool = False

    kind: ClassVar[CacheKind] = CacheKind.RECURRENT
    attends: ClassVar[bool] = False

    @property
    def state_elements(self) -> int:
        """Elements of the state."""
        return self.kv_heads * self.key_width * self.value_width

    @property
    def carried(self) -> tuple[str, int]:
        """The mixer and the elements of its state."""
        return str(self.mixer), self.state_elements

    @property
    def conv_elements(self) -> int:
        """Inputs that the convolution keeps."""
        return (self.kv_heads * self.head_channels + self.groups * self.group_channels) * self.conv_columns

    @property
    def fixed_bytes(self) -> int:
        """State and convolution, each in its own type."""
        return self.state_elements * self.state_element_bytes + self.conv_elements * self.conv_element_bytes

    def tokens_held(self, context_tokens: int) -> int:  # noqa: ARG002  # however long the sequence is
        """None: tokens leave no rows."""
        return 0

    def row_bytes(self, number: CacheFormat) -> int:  # noqa: ARG002  # its types are its own
        """Nothing: a token changes the state and adds none."""
        return 0

    def score_flops(self, query_heads: int) -> int:  # noqa: ARG002  # no cached token to score
        """Nothing for each earlier token."""
        return 0

    def tokens_shared(self, context_tokens: int, prefix_tokens: int) -> int:  # noqa: ARG002  # each has its own
        """None."""
        return 0

    def on_rank(self, tensor_parallel: int) -> Self:
        """Heads divided with their state and channels; groups divided, then replicated (accounting 1)."""
        groups = heads_on_rank(self.groups, tensor_parallel) if self.groups else 0
        return replace(self, kv_heads=heads_on_rank(self.kv_heads, tensor_parallel), groups=groups)
