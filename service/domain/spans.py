"""The span of each number of a question, however it is told: by name, in a command line or in an engine's log."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.units import MAX_EXACT_INTEGER

__all__ = ["GRAPH_MODES", "GRAPH_SIZES", "MAX_EXACT_INTEGER", "MOST_GPUS", "MOST_TOKENS", "SPANS", "Span"]

MOST_TOKENS = 2**31
_MOST_BYTES = 2**50
_MOST_SEQUENCES = 2**24
MOST_GPUS = 2**16


GRAPH_MODES: Final = ("none", "piecewise", "full", "full_decode_only", "full_and_piecewise")
"""Which graphs an engine may capture."""


GRAPH_SIZES: Final = 1024
"""Sizes of graphs that a question takes; engines print lists of 51 to 83 of their own."""


class Span(NamedTuple):
    """The least and the greatest value that is taken, both included unless `above_least`."""

    least: float
    greatest: float
    above_least: bool = False


SPANS: dict[str, Span] = {
    "gpu_count": Span(1, MOST_GPUS),
    "tensor_parallel": Span(1, 1024),
    "pipeline_parallel": Span(1, 1024),
    "data_parallel": Span(1, MOST_GPUS),
    "attention_data_parallel": Span(1, 1024),
    "decode_context_parallel": Span(1, 1024),
    "context_tokens": Span(1, MOST_TOKENS),
    "context_limit_tokens": Span(1, MOST_TOKENS),
    "prompt_tokens": Span(1, MOST_TOKENS),
    "shared_prefix_tokens": Span(0, MOST_TOKENS),
    "encoder_budget_tokens": Span(0, MOST_TOKENS),
    "encoder_image_pixels": Span(1, 2**40),
    "max_batched_tokens": Span(1, MOST_TOKENS),
    "block_tokens": Span(1, 2**20),
    "speculative_tokens": Span(0, 1024),
    "batch_size": Span(1, _MOST_SEQUENCES),
    "max_sequences_limit": Span(1, _MOST_SEQUENCES),
    "prefill_sequences": Span(1, _MOST_SEQUENCES),
    "parallel_slots": Span(1, _MOST_SEQUENCES),
    # llama.cpp reads -1 as "all layers" and takes more layers than there are.
    "gpu_layers": Span(-1, 100_000),
    # Experts of all layers where it is -1.
    "cpu_expert_layers": Span(-1, 100_000),
    "max_loras": Span(0, 4096),
    "max_lora_rank": Span(0, 65_536),
    "memory_bytes": Span(1, _MOST_BYTES),
    "gpus_memory_bytes": Span(1, _MOST_BYTES),
    "memory_used_by_others_bytes": Span(0, _MOST_BYTES),
    "reserve_bytes": Span(0, _MOST_BYTES),
    "kv_cache_bytes": Span(0, _MOST_BYTES),
    "cpu_offload_bytes": Span(0, _MOST_BYTES),
    "graph_sizes": Span(1, MOST_TOKENS),
    # Every sixteenth size up to it is captured, so that each is a graph of its own.
    "graph_size_limit": Span(1, 2**17),
    "memory_utilization": Span(0, 1, above_least=True),
    # The floor of 1 keeps every quotient finite.
    "parameters": Span(1, MAX_EXACT_INTEGER),
    "weight_bytes": Span(1, MAX_EXACT_INTEGER),
    "bandwidth_bytes_per_second": Span(1, 1e18),
    "peak_flops_per_second": Span(1, 1e21),
    "tensor_split": Span(0, 1e6),
    "curve_batch_sizes": Span(1, _MOST_SEQUENCES),
    "curve_context_tokens": Span(1, MOST_TOKENS),
}
