"""vLLM: what one of its releases keeps for itself, how it pages its cache, and what it prints when it starts.

`hold(setting, engine.release(version))` quotes a setting; everything that depends on the release is catalog data
(`catalog/engines/vllm.yaml`), read by `from_facts`. The policy alone is imported at once: other engines build on it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from service.domain.engines.vllm.policy import ReleaseRules, VllmEngine, from_facts

if TYPE_CHECKING:
    from service.domain.engines.vllm.capacity import Held, Rank, hold, requested_bytes
    from service.domain.engines.vllm.setting import UNKNOWN_DEVICE, Asked, Device, Memory, Setting

__all__ = [
    "UNKNOWN_DEVICE",
    "Asked",
    "Device",
    "Held",
    "Memory",
    "Rank",
    "ReleaseRules",
    "Setting",
    "VllmEngine",
    "from_facts",
    "hold",
    "requested_bytes",
]

_OF_CAPACITY = frozenset({"Held", "Rank", "hold", "requested_bytes"})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'capacity' if name in _OF_CAPACITY else 'setting'}"), name)
