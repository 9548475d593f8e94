"""Every limit of the wire in one table. The OpenAPI document and the messages of refusals read them from here.

The body's own limits (bytes, depth) are settings: `max_body_bytes`, `max_json_depth`.
"""

from typing import NamedTuple

# JavaScript reads integers exactly up to here, and both databases store them.
MAX_EXACT_INTEGER = 2**53 - 1

NAME_CHARACTERS = 200
COMMAND_CHARACTERS = 8192
NUMERAL_CHARACTERS = 40
LIST_ENTRIES = 64
CURVE_ROWS = 1024

# What a refusal repeats of what it refuses.
FAULTS_LISTED = 50
FAULTS_BYTES = 14_000
POINTER_CHARACTERS = 64
# The longest sentence lists the model types of all readers.
DETAIL_CHARACTERS = 4000

_TOKENS = 2**31
_BYTES = 2**50
_SEQUENCES = 2**24
_GPUS = 2**16


class Span(NamedTuple):
    """The least and the greatest value that is taken, both included unless `above_least`."""

    least: float
    greatest: float
    above_least: bool = False


SPANS: dict[str, Span] = {
    "gpu_count": Span(1, _GPUS),
    "tensor_parallel": Span(1, 1024),
    "pipeline_parallel": Span(1, 1024),
    "data_parallel": Span(1, _GPUS),
    "attention_data_parallel": Span(1, 1024),
    "decode_context_parallel": Span(1, 1024),
    "context_tokens": Span(1, _TOKENS),
    "context_limit_tokens": Span(1, _TOKENS),
    "prompt_tokens": Span(1, _TOKENS),
    "shared_prefix_tokens": Span(0, _TOKENS),
    "encoder_budget_tokens": Span(0, _TOKENS),
    "max_batched_tokens": Span(1, _TOKENS),
    "block_tokens": Span(1, 2**20),
    "speculative_tokens": Span(0, 1024),
    "batch_size": Span(1, _SEQUENCES),
    "max_sequences_limit": Span(1, _SEQUENCES),
    "prefill_sequences": Span(1, _SEQUENCES),
    "parallel_slots": Span(1, _SEQUENCES),
    # llama.cpp reads -1 as "all layers" and takes more layers than there are.
    "gpu_layers": Span(-1, 100_000),
    "max_loras": Span(0, 4096),
    "max_lora_rank": Span(0, 65_536),
    "memory_bytes": Span(1, _BYTES),
    "memory_used_by_others_bytes": Span(0, _BYTES),
    "reserve_bytes": Span(0, _BYTES),
    "kv_cache_bytes": Span(0, _BYTES),
    "cpu_offload_bytes": Span(0, _BYTES),
    "memory_utilization": Span(0, 1, above_least=True),
    # The floor of 1 keeps every quotient finite.
    "parameters": Span(1, MAX_EXACT_INTEGER),
    "weight_bytes": Span(1, MAX_EXACT_INTEGER),
    "bandwidth_bytes_per_second": Span(1, 1e18),
    "peak_flops_per_second": Span(1, 1e21),
    "tensor_split": Span(0, 1e6),
    "curve_batch_sizes": Span(1, _SEQUENCES),
    "curve_context_tokens": Span(1, _TOKENS),
}

# Bodies that hold the headers of a checkpoint's files, and how many files it may have.
IMPORT_BYTES = 16 * 2**20
HEADERS = 1024

# Pages of a list.
PAGE_ENTRIES = 50
MOST_PAGE_ENTRIES = 500
CURSOR_CHARACTERS = 400

# What filters of a list may be compared with.
FILTER_SPANS: dict[str, Span] = {
    "parameters": Span(0, MAX_EXACT_INTEGER),
    "bytes": Span(0, MAX_EXACT_INTEGER),
    "rate": Span(0, 1e21),
    "tokens": Span(0, _TOKENS),
    "count": Span(0, _GPUS),
    "year": Span(0, 9999),
    "usd_per_hour": Span(0, 1e6),
}

# Uploads of measurements; the body's limit is for what it unpacks to.
UPLOAD_ROWS = 1000
UPLOAD_BYTES = 10 << 20
ROW_BYTES = 64 << 10
BAD_ROWS_LISTED = 50
ROW_FAULTS = 3
ROW_TEXT_CHARACTERS = 120

# A start-up log; the limit is for what it unpacks to.
LOG_BYTES = 10 << 20
