"""vLLM's log. Its old core prints GB and means GiB; every figure is of one GPU but tokens, blocks and concurrency."""

from __future__ import annotations

from .forms import form, meaning
from .grammar import OUT_OF_MEMORY, Grammar
from .lines import Process
from .starts import Start
from .versions import before
from .words import Refusal

_LOGS = "public start-up logs"
_SAMPLER = "v1/sample/ops/topk_topp_sampler.py of 0.9.1 to 0.29.0"

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
    *OUT_OF_MEMORY,
)

SETTINGS = {
    "model": "model",
    "model_tag": "model",
    "dtype": "compute_dtype",
    "quantization": "weight_dtype",
    "kv_cache_dtype": "kv_dtype",
    "max_seq_len": "context_limit_tokens",
    "max_model_len": "context_limit_tokens",
    "tensor_parallel_size": "tensor_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "data_parallel_size": "data_parallel",
    "gpu_memory_utilization": "memory_utilization",
    "max_num_batched_tokens": "max_batched_tokens",
    "max_num_seqs": "max_sequences_limit",
    "block_size": "block_tokens",
}
_CONFIGS = frozenset(f"Initializing {core} LLM engine (v" for core in ("an", "a V0", "a V1"))
_ONE_RANK_A_LINE_UNTIL = "0.11.0"
_FIRST_RANK_ALONE_SINCE = "0.12.0"
_FIRST_RANK_ALONE = frozenset({"kv_cache_bytes", "weight_bytes", "graph_bytes"})
_OF_EVERY_RANK = ("kv_capacity_tokens", "max_concurrency")
_USUAL_BLOCK = 16


def settle(start: Start) -> None:
    """Put together what ranks said of one cache, confirm block counts, and read a cache below zero as a refusal."""
    world = start.world() or (1 if start.alone_somewhere() else None)
    once_a_rank = not _is_old_core(start) and before(start.version(), _ONE_RANK_A_LINE_UNTIL) is not False
    for process, names in start.heard.items():
        # Each rank has a line of either; where one was lost, what stands twice may be of one rank.
        counts = {len(names.get(name, ())) for name in _OF_EVERY_RANK}
        for name in [name for name in _OF_EVERY_RANK if name in names]:
            _least_of_ranks(
                start, process, name, world if len(counts) == 1 or world == 1 else None, once_a_rank=once_a_rank
            )
    confirm_blocks(start)
    refuse_below_zero(start)


def _least_of_ranks(start: Start, process: Process, name: str, world: int | None, *, once_a_rank: bool) -> None:
    """Cores up to 0.10 print the cache once for each rank, without saying for which; the smallest holds for all."""
    times = start.heard[process][name]
    distinct = {heard.value for heard in times}
    if len(distinct) == 1 and (not once_a_rank or len(times) == world):
        return
    if len(times) == world:
        start.heard[process][name] = [min(times, key=lambda heard: float(heard.value))]
        return
    reason = f"{len(times)} of {world or 'an unknown number of'} ranks said it, and the smallest of all would hold"
    start.leave_out(name, reason, times[0].line)
    del start.heard[process][name]


def _is_old_core(start: Start) -> bool:
    """Whether it is the core that counts blocks and prints them once, with those of the host beside them."""
    return any(True for _ in start.values("host_blocks"))


def _is_new_core(start: Start) -> bool:
    """Whether it is the core that plans the cache by tokens and not by blocks alone."""
    return any(True for _ in start.values("kv_capacity_tokens"))


def confirm_blocks(start: Start) -> None:
    """A count at a line's end may be cut; blocks that make the printed tokens, or concurrency, are whole."""
    size = start.setting("block_size")
    block = size if isinstance(size, int) and not isinstance(size, bool) else _USUAL_BLOCK
    tokens = {heard.value for _, heard in start.values("kv_capacity_tokens") if heard.sure}
    contexts = {heard.value for _, heard in start.values("concurrency_context_tokens") if heard.sure}
    shares = {heard.value for _, heard in start.values("max_concurrency") if heard.sure}
    for names in start.heard.values():
        for at, heard in enumerate(names.get("blocks", ())):
            held = int(heard.value) * block
            printed = {round(held / int(context), 2) for context in contexts if context}
            if held in tokens or (printed & shares and not tokens):
                names["blocks"][at] = heard._replace(sure=True)


def refuse_below_zero(start: Start) -> None:
    """What is left for the cache is printed below zero where nothing is."""
    for names in start.heard.values():
        for heard in [each for each in names.get("kv_cache_bytes", ()) if float(each.value) < 0]:
            names["kv_cache_bytes"].remove(heard)
            start.refusals.append(Refusal("kv_cache", heard.line, None, 0))
        if not names.get("kv_cache_bytes", True):
            del names["kv_cache_bytes"]


def _said_by_first(start: Start, name: str) -> bool:
    return name in _FIRST_RANK_ALONE and before(start.version(), _FIRST_RANK_ALONE_SINCE) is False


def _alone(start: Start, process: Process) -> bool:
    if process.label:
        return process.label.startswith("EngineCore")
    return _is_new_core(start) and start.speaks_twice(process)


_OLD_CORE = ("an LLM engine", "V0 LLM engine", "The model's max seq len")


def mixed(start: Start) -> str:
    """Whether lines of both cores are here, or of two lengths that an engine was started for."""
    old = any(text in mark for mark, _ in start.marks for text in _OLD_CORE)
    new = any("V1 LLM engine" in mark for mark, _ in start.marks) or _is_new_core(start)
    new = new or any(process.label.startswith("EngineCore") for process in start.heard)
    counted = any("blocks:" in mark for mark, _ in start.marks)
    if (old and new) or (counted and _is_new_core(start)) or (new and _is_old_core(start)):
        return "lines of the old core and of the new one"
    engines = {label for label, _ in start.writers if label.startswith("EngineCore")}
    if "EngineCore" in engines and len(engines) > 1:
        return "lines of an engine with a number and of one without"
    named = {printed.process.label.startswith("EngineCore") for printed in start.printed if printed.kind == "config"}
    if False in named and any(process.label.startswith("EngineCore") for process in start.heard):
        return "lines of engines with and without a name"
    asked = start.setting("max_seq_len")
    lengths = {heard.value for _, heard in start.values("concurrency_context_tokens") if heard.sure}
    if isinstance(asked, int) and not isinstance(asked, bool):
        lengths.add(asked)
    lengths |= {refusal.context_limit_tokens for refusal in start.refusals if refusal.context_limit_tokens}
    if len(lengths) > 1:
        return f"it was started for {' and '.join(str(length) for length in sorted(lengths, key=int))} tokens"
    return ""


VLLM = Grammar(
    engine="vllm",
    hints=(
        *(
            "vLLM API server version",
            "args:",
            "LLM engine (v",
            "max model len",
            "Chunked prefill is",
            "block size to",
        ),
        *("weights take", "weights took", "loading took", "current vLLM instance", "for KV Cache", "emory profiling"),
        *(
            "nitial free memory",
            "KV cache",
            "blocks",
            "graph memory",
            "graph pool",
            "capturing finished",
            "ree memory on",
        ),
        *("oncurrency for", "max seq len", "To serve at least", "out of memory", "top-p & top-k sampling"),
    ),
    forms=FORMS,
    settings=SETTINGS,
    absent={"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1},
    resolves=True,
    opening=frozenset({"vLLM API server version", "args: Namespace", "non-default args:"}),
    naming=_CONFIGS,
    order=(
        ("Loading model weights took", "Model loading took"),
        ("the current vLLM instance", "model weights take", "Memory profiling", "Available KV cache", "Estimated CUDA"),
        ("# GPU blocks", "GPU KV cache size", "Maximum concurrency"),
        ("Graph capturing finished", "CUDA graph pool"),
    ),
    settle=settle,
    mixed=mixed,
    said_by_first=_said_by_first,
    alone=_alone,
    labelled=("EngineCore", "Worker", "VllmWorker "),
    engine_labels=("EngineCore",),
)
