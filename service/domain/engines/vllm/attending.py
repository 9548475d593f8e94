"""What attends where nobody names it, as far as memory follows from it (backend priorities of platforms/cuda.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache.recurrent import RecurrentCache
from service.domain.engines.vllm.setting import has_latent, has_states

if TYPE_CHECKING:
    from service.domain.engines.vllm.setting import Setting

FLASHINFER = "flashinfer"
_FLASH, _TRITON = "flash_attn", "triton_attn"
_DATA_CENTRE_BLACKWELL, _HOPPER = 10, 9
_WITHOUT_NARROW_FLASH = frozenset({8, 12})
"""Families whose FlashAttention reads no 8-bit cache, so that FlashInfer does."""
_WIDEST_KEYS = 256


def flashinfer_attends(setting: Setting) -> bool:
    """Whether FlashInfer attends: as asked, on data-centre Blackwell, or to a narrow cache outside Hopper."""
    backend, family = setting.asked.attention_backend, _family(setting)
    if backend is not None:
        return backend.casefold() == FLASHINFER
    if has_latent(setting.model.architecture) or _widest_keys(setting) > _WIDEST_KEYS:
        return False
    return family == _DATA_CENTRE_BLACKWELL or (
        setting.cache.name.startswith("fp8") and family in _WITHOUT_NARROW_FLASH
    )


def replays_single_tokens(setting: Setting) -> bool:
    """Whether what attends replays whole steps of one token a sequence alone: FlashInfer's own kernels."""
    return flashinfer_attends(setting) and _family(setting) != _DATA_CENTRE_BLACKWELL


def attends_in_any_graph(setting: Setting) -> bool:
    """Whether what attends can be part of graphs of prompts and decoding: FlashAttention 3, and Triton's kernels."""
    backend, architecture = setting.asked.attention_backend, setting.model.architecture
    if has_latent(architecture) or has_states(architecture):
        return False
    if backend is not None and backend.casefold() == _TRITON:
        return True
    plain = backend is None or backend.casefold() == _FLASH
    return plain and _family(setting) == _HOPPER and _widest_keys(setting) <= _WIDEST_KEYS


def _family(setting: Setting) -> float:
    return (setting.device.capability or 0) // 1


def _widest_keys(setting: Setting) -> int:
    specs = (owners.spec for owners in setting.model.architecture.caches)
    return max((spec.key_width for spec in specs if not isinstance(spec, RecurrentCache)), default=0)
