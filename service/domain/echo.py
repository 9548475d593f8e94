"""The question as the answer repeats it: every name with its value, and where each value came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.domain.commands.asking import Heard

NAMES = (
    *("model", "config", "assume", "gpu", "gpu_count", "gpus", "context_tokens", "context_limit_tokens"),
    "batch_size",
    *("weight_dtype", "kv_dtype", "tensor_parallel", "pipeline_parallel", "data_parallel", "attention_data_parallel"),
    *("expert_parallel", "decode_context_parallel", "engine", "engine_version", "command", "memory_utilization"),
    *("max_batched_tokens", "max_sequences_limit", "block_tokens", "enforce_eager", "prefix_caching"),
    *("async_scheduling", "attention_backend", "hybrid_cache", "speculative_method", "speculative_tokens"),
    *("draft_model", "gpu_layers", "cpu_expert_layers", "cpu_tensors", "tensor_split", "parallel_slots"),
    *("max_loras", "max_lora_rank", "fully_sharded_loras", "cpu_offload_bytes"),
    *("graph_mode", "graph_sizes", "graph_size_limit"),
    *("moe_backend", "sampler_backend", "encoder_budget_tokens", "encoder_limits"),
    *("encoder_image_pixels", "encoder_profiling", "encoder_data_parallel", "memory_bytes", "gpus_memory_bytes"),
    "memory_basis",
    *("memory_used_by_others_bytes", "reserve_bytes", "kv_cache_bytes", "parameters", "weight_bytes"),
    *("bandwidth_bytes_per_second", "peak_flops_per_second", "prompt_tokens", "prefill_sequences"),
    *("curve_batch_sizes", "curve_context_tokens", "shared_prefix_tokens", "lengths", "calibration", "as_of"),
)
"""Every name of a question, in the order of the contract."""


_ALIKE: Mapping[str, Any] = {
    "engine": "none",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "data_parallel": 1,
    "expert_parallel": False,
    "shared_prefix_tokens": 0,
    "memory_used_by_others_bytes": 0,
    "calibration": "auto",
}
"""Defaults that neither the model, the device nor the engine changes."""


class Echo:
    """The question that the answer repeats: every name with its value, and where each value came from."""

    __slots__ = ("asked", "taken", "values")

    _UNASKED: Mapping[str, Any] = {name: _ALIKE.get(name) for name in NAMES}
    _DEFAULT = dict.fromkeys(NAMES, "default")

    def __init__(self, asked: Mapping[str, Any], heard: Heard | None = None) -> None:
        """Start from what was asked; names that nobody gave have the default of every question, or are null.

        `asked` has what a command set and not the command, so that it can be asked again with changes.
        """
        self.asked = asked
        self.values: dict[str, Any] = {**self._UNASKED, **asked}
        self.taken: dict[str, str] = {**self._DEFAULT, **dict.fromkeys(asked, "request")}
        if heard is not None:
            self.values["command"], self.taken["command"] = heard.text, "request"
            self.taken.update(heard.taken)

    def take(self, name: str, default: Any, source: str = "default") -> Any:  # noqa: ANN401  # as the name's type
        """The asked value, or the default, which is noted with its source."""
        value = self.asked.get(name)
        if value is None:
            self.values[name] = value = default
            self.taken[name] = source
        return value
