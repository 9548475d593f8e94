"""What attends where nobody names it, as far as memory follows from it (backend priorities of platforms/cuda.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache.recurrent import RecurrentCache
from service.domain.engines.vllm.setting import has_latent

if TYPE_CHECKING:
    from service.domain.engines.vllm.setting import Setting

FLASHINFER = "flashinfer"
_DATA_CENTRE_BLACKWELL = 10
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


def _family(setting: Setting) -> float:
    return (setting.device.capability or 0) // 1


def _widest_keys(setting: Setting) -> int:
    specs = (owners.spec for owners in setting.model.architecture.caches)
    return max((spec.key_width for spec in specs if not isinstance(spec, RecurrentCache)), default=0)
