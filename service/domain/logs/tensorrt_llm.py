"""TensorRT-LLM's log. Its C++ part names no rank; the PyTorch backend first allocates a small cache to measure with.

cache = fraction x what is free after the engine and its contexts; tokens are the smallest of all ranks.
"""

from __future__ import annotations

from .forms import form
from .grammar import OUT_OF_MEMORY, Grammar
from .starts import Heard, Start
from .words import OF_A_RANK

_LOGS = "public start-up logs"

FORMS = (
    form("TensorRT-LLM version: {version:word}", "0.8.0", _LOGS),
    form("TensorRT LLM version: {version:word}", "1.1.0", _LOGS),
    form("Using LLM with PyTorch backend{*}", "0.20.0", _LOGS),
    form("Loaded engine size: {weight_bytes:mib}", "0.5.0", "documentation of memory use, logs at level info"),
    form("\\[MemUsageChange\\] Allocated {activation_bytes:mib} for execution context memory.", "0.9.0", "as above"),
    form(
        "\\[MemUsageChange\\] Allocated {kv_cache_bytes:gib} for max tokens in paged KV cache"
        " ({kv_capacity_tokens:count}).",
        "0.8.0",
        _LOGS,
    ),
    form(
        "Memory usage when calculating max tokens in paged kv cache: total: {memory_bytes:gib}, available:"
        " {free_after_bytes:gib}",
        "0.9.0",
        _LOGS,
    ),
    form("Number of blocks in KV cache primary pool: {blocks:count}", "0.9.0", _LOGS, "0.17.0"),
    form("Number of tokens per block: {block_tokens:count}.", "0.9.0", _LOGS, "0.17.0"),
    form(
        "Max KV cache blocks per sequence: {:count} \\[window size={:count}\\], tokens per block={block_tokens:count},"
        " primary blocks={blocks:count}, secondary blocks={:count}[, max sequence length={:count}]",
        "0.18.0",
        "the length since 1.1",
    ),
    form(
        "Peak memory during memory usage profiling (torch + non-torch): {:gib}, available KV cache memory when"
        " calculating max tokens: {:gib}, fraction is set {memory_utilization:number}, {*}",
        "0.18.0",
        "_torch/pyexecutor/_util.py",
    ),
    form("Estimated max memory in KV cache : {estimated_bytes:gib}", "0.18.0", "_torch/pyexecutor/_util.py"),
    form(
        "max_seq_len={context_limit_tokens:count}, max_num_requests={max_sequences_limit:count},"
        " max_num_tokens={max_batched_tokens:count}{*}",
        "0.18.0",
        _LOGS,
    ),
    form("CUDA runtime error in {:word}: out of memory{*}", "0.5.0", _LOGS, refuses="out_of_memory"),
    form("Executor creation failed due to insufficient GPU memory.", "1.0.0", _LOGS, refuses="out_of_memory"),
    *OUT_OF_MEMORY,
)

# Lines that were cut just behind their ranks look as if they never had one; of more than these, not all do.
_LEAST = 3
_CACHE = ("kv_cache_bytes", "kv_capacity_tokens", "blocks")


def settle(start: Start) -> None:
    """Choose among the caches that were allocated one after the other, and confirm the count of blocks."""
    measured = any("Using LLM with PyTorch backend" in mark for mark, _ in start.marks)
    for names in start.heard.values():
        estimates = names.pop("estimated_bytes", [])
        said = any(name in names for name in _CACHE)
        if said and (measured or estimates):
            _final_cache(start, names, estimates)
        elif said and "free_after_bytes" not in names:
            _leave_out(start, names, "whether it is the cache that stays, or a small one to measure with, is not said")
        elif len({heard.value for heard in names.get("kv_cache_bytes", ())}) > 1:
            _leave_out(start, names, "ranks that do not name themselves differ, and the smallest of all would hold")
        _confirm_blocks(names)


def _leave_out(start: Start, names: dict[str, list[Heard]], reason: str) -> None:
    for name in _CACHE:
        times = names.pop(name, [])
        if times:
            start.leave_out(name, reason, times[-1].line)


def _final_cache(start: Start, names: dict[str, list[Heard]], estimates: list[Heard]) -> None:
    """The cache after measuring is the one allocated after the estimate."""
    after = max((heard.line for heard in estimates), default=None)
    for name in _CACHE:
        times = names.pop(name, [])
        final = [heard for heard in times if after is not None and heard.line > after]
        small = {heard.value for heard in times if heard not in final}
        if len({heard.value for heard in final}) == 1 and final[0].value not in small:
            names[name] = final[:1]
        elif times:
            start.leave_out(name, "which of the caches is the one that stays is not said", times[-1].line)


def _confirm_blocks(names: dict[str, list[Heard]]) -> None:
    sizes = {int(heard.value) for heard in names.get("block_tokens", ())}
    tokens = {int(heard.value) for heard in names.get("kv_capacity_tokens", ())}
    for at, heard in enumerate(names.get("blocks", ())):
        if any(int(heard.value) * size in tokens for size in sizes):
            names["blocks"][at] = heard._replace(sure=True)


_OF_PYTORCH = (
    *("PyTorch backend", "memory usage profiling", "Estimated max memory", "max_seq_len="),
    "Executor creation failed",
)
_OF_AN_ENGINE = ("Loaded engine size", "Memory usage when calculating", "Number of blocks in KV cache primary")


def mixed(start: Start) -> str:
    """Whether an engine was loaded although none is built for the PyTorch backend, or a launcher names some ranks."""
    measured = any(text in mark for mark, _ in start.marks for text in _OF_PYTORCH)
    loaded = any(text in mark for mark, _ in start.marks for text in _OF_AN_ENGINE)
    if measured and loaded:
        return "lines of an engine and of the PyTorch backend"
    named = {bool(label) for label, _ in start.writers}
    return "lines of ranks with a name and without one" if len(named) > 1 else ""


TENSORRT_LLM = Grammar(
    engine="tensorrt-llm",
    hints=(
        *(
            "LLM version:",
            "PyTorch backend",
            "Loaded engine size",
            "MemUsageChange",
            "in paged kv cache",
            "KV cache primary",
        ),
        *(
            "tokens per block",
            "memory usage profiling",
            "max memory in KV",
            "max_seq_len=",
            "KV cache blocks per",
            "CUDA runtime error",
            "out of memory",
            "Executor creation failed",
        ),
    ),
    worth=(
        *("max_num_requests=", "Allocated", "paged kv cache", "paged KV cache", "KV cache primary", "KV cache blocks"),
        *("per block", "engine size", "usage profiling", "max memory in KV"),
    ),
    forms=FORMS,
    opening=frozenset({"TensorRT-LLM version:", "TensorRT LLM version:", "Using LLM with PyTorch backend"}),
    order=(("Loaded engine size",), ("Memory usage when calculating",), ("Number of blocks",)),
    settle=settle,
    mixed=mixed,
    synced=False,
    labelled=("rank",),
    alone=lambda start, process: (
        not process.label and not start.bare and start.nameless_lines() > _LEAST and _once(start)
    ),
)


def _once(start: Start) -> bool:
    """Whether no figure of a rank was said more than once, as several ranks would."""
    return all(len(times) == 1 for names in start.heard.values() for name, times in names.items() if name in OF_A_RANK)
