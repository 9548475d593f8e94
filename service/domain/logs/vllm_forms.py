"""The lines of vLLM's log. Its old core prints GB and means GiB; every figure is of one GPU but tokens and blocks."""

from __future__ import annotations

from .forms import form, meaning
from .grammar import OUT_OF_MEMORY

_LOGS = "public start-up logs"
_EXPERTS = "get_config_file_name of fused_moe.py of 0.16.0 to 0.33.0, blanks of the driver's name as underscores"
_SAMPLER = "v1/sample/ops/topk_topp_sampler.py of 0.9.1 to 0.29.0"

_FREE = (
    "Free memory on device[ {:word}] ({free_before_bytes:gib_of}/{memory_bytes:gib}) on startup. Desired GPU memory"
    " utilization is ({memory_utilization:number}, {budget_bytes:gib})"
)
_INSTEAD = (
    "`--kv-cache-memory={:listed}` ({:gib}) to fit into requested memory, or `--kv-cache-memory={:listed}` ({:gib})"
    " to fully utilize"
)

FORMS = (
    form("vLLM API server version {version:word}", "0.4.0", _LOGS),
    form("args: Namespace{args:dict}", "0.4.0", _LOGS),
    form("non-default args: {args:dict}", "0.9.0", _LOGS),
    form("Initializing an LLM engine (v{version:word}) with config: {config:dict}", "0.4.0", _LOGS, "0.7.3"),
    form("Initializing a V0 LLM engine (v{version:word}) with config: {config:dict}", "0.8.0", _LOGS, "0.10.2"),
    form("Initializing a V1 LLM engine (v{version:word}) with config: {config:dict}", "0.7.0", _LOGS),
    form("Using max model len {context_limit_tokens:count}", "0.9.0", _LOGS),
    form("Chunked prefill is enabled with max_num_batched_tokens={max_batched_tokens:count}.", "0.6.0", _LOGS),
    meaning("Using FlashInfer for top-p & top-k sampling.", "0.8.0", _SAMPLER, sampler_backend="flashinfer"),
    *(
        meaning(
            f"FlashInfer is {lacks}. Falling back to the PyTorch-native implementation of top-p & top-k sampling.{{*}}",
            "0.8.0",
            _SAMPLER,
            "0.11.0",
            sampler_backend="sort",
        )
        for lacks in ("not available", "available, but it is not enabled")
    ),
    *(
        form(f"{says} {{:paths}}device_name={{gpu:card}}<,|.json>{{*}}", "0.4.0", _EXPERTS)
        for says in (
            "Using configuration from",
            "Using default MoE config. Performance might be sub-optimal! Config file not found at",
        )
    ),
    form("Setting attention block size to {block_tokens:count} tokens {*}", "0.10.0", _LOGS),
    form(
        "Loading model weights took {weight_bytes:gib}",
        "0.4.0",
        "worker/model_runner.py; 14.9888 of an 8 B model",
        "0.8.5",
    ),
    form("Model loading took {weight_bytes:gib}[ memory][ and {:number} s[econds]]", "0.7.0", _LOGS),
    form(
        "the current vLLM instance can use total_gpu_memory ({memory_bytes:gib}) x gpu_memory_utilization"
        " ({memory_utilization:number}) = {budget_bytes:gib}",
        "0.6.5",
        "worker/worker.py of 0.6.5 to 0.10.2, the old core",
        "0.10.2",
    ),
    form(
        "model weights take {weight_bytes:gib}; non_torch_memory takes {other_bytes:gib};"
        " PyTorch activation peak memory takes {activation_bytes:gib};"
        "[ the rest of the memory reserved for KV Cache is {kv_cache_bytes:gib}.]",
        "0.6.5",
        "worker/worker.py of 0.6.5 to 0.10.2, the old core",
        "0.10.2",
    ),
    form(
        "the rest of the memory reserved for KV Cache is {kv_cache_bytes:gib}.",
        "0.6.5",
        "as above, on a line of its own",
        "0.10.2",
    ),
    form(
        "Memory profiling results: total_gpu_memory={memory_bytes:gib} initial_memory_usage={:gib}"
        " peak_torch_memory={:gib} memory_usage_post_profile={:gib} non_torch_memory={other_bytes:gib}"
        " kv_cache_size={kv_cache_bytes:gib}"
        " gpu_memory_utilization={memory_utilization:number}",
        "0.6.4",
        "worker/worker.py of 0.6.4",
        "0.6.4.post1",
    ),
    form(
        "Memory profiling takes {:number} seconds. Total non KV cache memory: {:gib}; torch peak memory increase:"
        " {activation_bytes:gib}; non-torch forward increase memory: {other_bytes:gib}; weights memory: {:gib}.",
        "0.10.0",
        "v1/worker/gpu_worker.py, at level debug",
    ),
    form(
        "Memory profiling takes {:number} seconds. Total non KV cache memory: {:gib}; torch peak memory increase:"
        " {activation_bytes:gib}; total consumed (from mem_get_info): {:gib}; weights memory: {:gib}.",
        "0.29.0",
        "public start-up logs, at level debug",
    ),
    form(
        "Initial free memory: {free_before_bytes:gib}; Requested memory: {memory_utilization:number} (util),"
        " {budget_bytes:gib}",
        "0.10.0",
        "v1/worker/gpu_worker.py, at level debug",
    ),
    form(
        "Initial free memory {free_before_bytes:gib}, reserved {kv_cache_bytes:gib} memory for KV Cache as"
        " specified{*}",
        "0.10.2",
        _LOGS,
    ),
    form("Available KV cache memory: {kv_cache_bytes:gib}", "0.8.3", _LOGS),
    form("Estimated CUDA graph memory: {graph_estimate_bytes:gib} total", "0.19.0", _LOGS),
    form("CUDA graph pool memory: {graph_bytes:gib} (actual), {:gib} (estimated){*}", "0.19.0", _LOGS),
    form("Graph capturing finished in {:number} sec[ond]s, took {graph_bytes:gib}", "0.6.0", _LOGS),
    form("# GPU blocks: {blocks:count}[, # CPU blocks: {host_blocks:count}]", "0.2.0", _LOGS, "0.10.2"),
    *(
        form(
            f"# {device} blocks: {{blocks:count}}, # CPU blocks: {{host_blocks:count}}",
            "0.7.0",
            "executor_base.py",
            "0.10.2",
        )
        for device in ("cuda", "rocm", "xpu", "hpu", "CUDA")
    ),
    form(
        "GPU KV cache size: {kv_capacity_tokens:count} tokens[, Maximum concurrency for"
        " {concurrency_context_tokens:count} tokens per request: {max_concurrency:number}x]",
        "0.8.0",
        "one line with the concurrency since 0.29",
    ),
    form(
        "Maximum concurrency for {concurrency_context_tokens:count} tokens per request: {max_concurrency:number}x",
        "0.6.3",
        _LOGS,
    ),
    form(
        "vllm cache_config_info with initialization after num_gpu_blocks is: {blocks:count}",
        "0.9.0",
        "v1/metrics/loggers.py",
    ),
    form(
        "To serve at least one request with the model[s]'s max seq len ({context_limit_tokens:count}),"
        " [(]{needed_bytes:gib} KV cache is needed, which is larger than the available KV cache memory"
        " ({available_bytes:gib})."
        "[ Based on the available memory, the estimated maximum model length is {max_context_tokens:count}.]{*}",
        "0.8.0",
        _LOGS,
        refuses="kv_cache",
    ),
    form(
        "The model's max seq len ({context_limit_tokens:count}) is larger than the maximum number of tokens that can be"
        " stored in KV cache ({max_context_tokens:count}).{*}",
        "0.2.0",
        _LOGS,
        "0.10.2",
        refuses="kv_cache",
    ),
    form("No available memory for the cache blocks.{*}", "0.2.0", _LOGS, refuses="kv_cache"),
    form(
        "Free memory on device[ {:word}] ({available_bytes:gib_of}/{memory_bytes:gib}) on startup is less than"
        " desired GPU memory utilization ({:number}, {needed_bytes:gib}).{*}",
        "0.8.5",
        _LOGS,
        refuses="free_memory",
    ),
    # The share that is asked for, and what of it is used: since releases that print it, every rank says it.
    form(
        f"{_FREE}. Actual usage is {{weight_bytes:gib}} for weight, {{activation_bytes:gib}} for peak activation,"
        " {other_bytes:gib} for non-torch memory, and {graph_bytes:gib} for CUDAGraph memory. Replace"
        f" gpu_memory_utilization config with {_INSTEAD} gpu memory. Current kv cache memory in use is"
        " {kv_cache_bytes:gib}.",
        "0.11.0",
        _LOGS,
    ),
    form(
        f"{_FREE}. Actual usage is {{:gib}} for consumed memory (weights + non-torch), {{:gib}} for peak activation,"
        f" and {{graph_bytes:gib}} for CUDAGraph memory. Replace gpu_memory_utilization config with {_INSTEAD} gpu"
        " memory. Current kv cache memory in use is {kv_cache_bytes:gib}.",
        "0.29.0",
        "public start-up logs; its peak holds the estimate of graphs too",
    ),
    form(
        f"{_FREE}. Actual usage: {{weight_bytes:gib}} for weights, {{activation_bytes:gib}} for peak activation,"
        " {other_bytes:gib} for non-torch memory, {graph_bytes:gib} for NPU graph memory. Replace"
        f" gpu_memory_utilization with {_INSTEAD} NPU free memory. Current KV cache memory: {{kv_cache_bytes:gib}}.",
        "0.13.0",
        "public start-up logs on Ascend",
    ),
    form(
        "Auto-fit max_model_len: reduced from {:count} to {fitted_tokens:count} to fit in available GPU memory{*}",
        "0.14.0",
        _LOGS,
    ),
    form(
        "Auto-fit max_model_len: full model context length {fitted_tokens:count} fits in available GPU memory",
        "0.14.0",
        _LOGS,
    ),
    *OUT_OF_MEMORY,
)
