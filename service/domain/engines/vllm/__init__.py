"""vLLM: what one of its releases keeps for itself, how it pages its cache, and what it prints when it starts.

`hold(setting, engine.release(version))` quotes a setting; everything that depends on the release is catalog data
(`catalog/engines/vllm.yaml`), read by `from_facts`.
"""

from service.domain.engines.vllm.capacity import Held, Rank, hold, requested_bytes
from service.domain.engines.vllm.policy import ReleaseRules, VllmEngine, from_facts
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
