"""What vLLM's log says together: which of its lines are of one engine, and what its ranks' figures make."""

from __future__ import annotations

from .grammar import Grammar
from .lines import Process
from .starts import Start
from .versions import before
from .vllm_forms import FORMS
from .words import Refusal

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
_CHOOSES_SINCE = "0.14.0"
_ONE_RANK_A_LINE_UNTIL = "0.11.0"
_FIRST_RANK_ALONE_SINCE = "0.12.0"
_FIRST_RANK_ALONE = frozenset({"kv_cache_bytes", "weight_bytes", "graph_bytes"})
_OF_EVERY_RANK = ("kv_capacity_tokens", "max_concurrency")
_USUAL_BLOCK = 16


def settle(start: Start) -> None:
    """Put together what ranks said of one cache, confirm block counts, and read a cache below zero as a refusal."""
    _name_workers(start)
    _take_fitted(start)
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


def _name_workers(start: Start) -> None:
    """Put together what a worker said before it had its name, and after: its process has one number."""
    named: dict[tuple[str, str], list[Process]] = {}
    for process in start.heard:
        if process.pid and process.label.startswith("Worker") and not process.label.endswith(process.pid):
            named.setdefault((process.pid, process.source), []).append(process)
    for process in [each for each in start.heard if each.pid and each.label == f"Worker pid={each.pid}"]:
        same = named.get((process.pid, process.source), ())
        if len(same) == 1:
            for name, times in start.heard.pop(process).items():
                start.heard[same[0]].setdefault(name, [])[:0] = times


def _take_fitted(start: Start) -> None:
    """Let the length that the engine chose take the place of the one that it began with."""
    fitted = [(process, heard) for process, heard in start.values("fitted_tokens") if heard.sure]
    for names in start.heard.values():
        names.pop("fitted_tokens", None)
    if fitted or _may_be_fitted(start):
        if not fitted and (
            "context_limit_tokens" in start.settings_said() or any(start.values("context_limit_tokens"))
        ):
            start.leave_out("context_limit_tokens", "the engine may have gone on to choose a shorter one")
        start.supersede("context_limit_tokens")
        for names in start.heard.values():
            names.pop("context_limit_tokens", None)
    for process, heard in fitted:
        start.heard[process].setdefault("context_limit_tokens", []).append(heard)


def _may_be_fitted(start: Start) -> bool:
    """Whether nothing rules out that the engine was to choose a length: no list of what was asked, no later line."""
    asked = [printed.settings for printed in start.printed if printed.kind == "args"]
    chosen = any(_is_to_choose(settings.values.get("max_model_len")) for settings in asked)
    told = any(settings.whole or "max_model_len" in settings.values for settings in asked)
    if before(start.version(), _CHOOSES_SINCE) or (told and not chosen):
        return False
    confirmed = any(heard.sure for _, heard in start.values("concurrency_context_tokens"))
    return not confirmed and not any(refusal.context_limit_tokens for refusal in start.refusals)


def _is_to_choose(length: object) -> bool:
    return length == -1 or str(length).casefold() == "auto"


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
    """Whether lines of both cores are here, of two lengths, or of a cache that there was no room for."""
    return _two_cores(start) or _two_lengths(start) or _more_than_nothing(start)


def _two_cores(start: Start) -> str:
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
    return ""


def _two_lengths(start: Start) -> str:
    asked = None if "context_limit_tokens" in start.superseded else start.setting("max_seq_len")
    lengths = {heard.value for _, heard in start.values("concurrency_context_tokens") if heard.sure}
    if isinstance(asked, int) and not isinstance(asked, bool):
        lengths.add(asked)
    lengths |= {refusal.context_limit_tokens for refusal in start.refusals if refusal.context_limit_tokens}
    if len(lengths) > 1:
        return f"it was started for {' and '.join(str(length) for length in sorted(lengths, key=int))} tokens"
    return ""


def _more_than_nothing(start: Start) -> str:
    none = any(refusal.kind == "kv_cache" and refusal.available_bytes == 0 for refusal in start.refusals)
    if none and any(float(heard.value) > 0 for _, heard in start.values("kv_capacity_tokens")):
        return "no memory was left for the cache, and one was made"
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
            "configuration from",
            "default MoE config",
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
        *(
            "oncurrency for",
            "max seq len",
            "To serve at least",
            "out of memory",
            "top-p & top-k sampling",
            "uto-fit max",
        ),
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
