"""SGLang's log. It prints GB and means GiB; every rank speaks for itself, and a drafter speaks through the same ranks.

pool = free after loading - free before loading x (1 - fraction); keys and values have a buffer each, windows a pool of
their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from .forms import form
from .grammar import OUT_OF_MEMORY, Grammar
from .lines import Process
from .starts import Heard, Start

_LOGS = "public start-up logs"

FORMS = (
    form("server_args=ServerArgs{args:dict}", "0.2.0", _LOGS),
    form("server_args=ServerArgs{args:dict}{*}", "0.2.0", "cut by whoever shows the log"),
    form("Load weight begin. avail mem={free_before_bytes:gib}[.]", "0.1.14", _LOGS),
    form(
        "Load weight end.[ elapsed={:number} s,] type={kind:word}, [{:named}=[']{:named}['], ][{:named}={:named}, ]"
        "[{:named}={:named}, ][{:named}={:named}, ]avail mem={free_after_bytes:gib}[, mem usage={weight_bytes:gib}][.]",
        "0.1.14",
        "memory used since 0.4.5, elapsed time since 0.5.7",
    ),
    form(
        "KV Cache is allocated.[ dtype: {:word},][ #tokens: {pool_tokens:count},] K size: {key_bytes:gib}, V size:"
        " {value_bytes:gib}[.]",
        "0.4.0",
        "tokens since 0.4.5, type since 0.5.14",
    ),
    form(
        "KV Cache is allocated.[ dtype: {:word},][ #tokens: {pool_tokens:count},] KV size: {latent_bytes:gib}[.]",
        "0.4.0",
        _LOGS,
    ),
    form("SWAKVPool mem usage: {both_bytes:gib}, swa size: {:count}, full size: {full_tokens:count}", "0.4.8", _LOGS),
    form(
        "Mamba Cache is allocated. max_mamba_cache_size: {:count}, conv_state size: {conv_bytes:gib}[,] ssm_state size:"
        " {ssm_bytes:gib}[[,] intermediate_ssm_state_cache size: {drafted_ssm_bytes:gib}[,]"
        " intermediate_conv_window_cache size: {drafted_conv_bytes:gib}][.]",
        "0.5.4",
        _LOGS,
    ),
    form("Memory pool end. avail mem={pool_free_bytes:gib}[.]", "0.1.14", _LOGS),
    form(
        "Capture cuda graph end. Time elapsed: {:number} s.[ mem usage={graph_bytes:gib}.][ avail mem={:gib}[.]]",
        "0.4.0",
        _LOGS,
    ),
    form(
        "Capture npu graph end. Time elapsed: {:number} s.[ mem usage={graph_bytes:gib}.][ avail mem={:gib}[.]]",
        "0.5.5",
        _LOGS,
    ),
    form(
        "Capture target decode CUDA graph end. elapsed={:number} s, mem usage={graph_bytes:gib}, avail mem={:gib}[.]",
        "0.5.14",
        _LOGS,
    ),
    form(
        "max_total_num_tokens={kv_capacity_tokens:count},[ chunked_prefill_size=<{max_batched_tokens:count}|-1>,]"
        "[ max_prefill_tokens={:count},][ max_running_requests={max_sequences_limit:count},]"
        "[ context_len={context_limit_tokens:count}][, available_gpu_mem={:gib}]",
        "0.1.14",
        "free memory at the end since 0.4.7",
    ),
    form("Not enough memory. Please try to increase --mem-fraction-static.{*}", "0.1.14", _LOGS, refuses="kv_cache"),
    form("Not enough memory; increase --mem-fraction-static.{*}", "0.1.14", _LOGS, refuses="kv_cache"),
    *OUT_OF_MEMORY,
)

SETTINGS = {
    "model_path": "model",
    "dtype": "compute_dtype",
    "quantization": "weight_dtype",
    "kv_cache_dtype": "kv_dtype",
    "context_length": "context_limit_tokens",
    "tp_size": "tensor_parallel",
    "pp_size": "pipeline_parallel",
    "dp_size": "data_parallel",
    "mem_fraction_static": "memory_utilization",
    "chunked_prefill_size": "max_batched_tokens",
    "max_running_requests": "max_sequences_limit",
    "page_size": "block_tokens",
}
_STATES = ("conv_bytes", "ssm_bytes", "drafted_ssm_bytes", "drafted_conv_bytes")
_LOADED = ("free_before_bytes", "free_after_bytes", "weight_bytes")
# Beside the cache of tokens: tables of slots and positions, 0.2 to 1.3 GiB in logs, and workspaces.
_MOST_BESIDE = 1.15
_TABLES_BYTES = 3 << 29
# Families whose windows have a pool of their own (catalog/engines/sglang.yaml, windows).
_WINDOWED = re.compile(r"gptoss|llama4|mimov2|step3|gemma4|deepseekv4", re.ASCII)
_SIGNS = re.compile(r"[^a-z0-9]", re.ASCII)
_DRAFTS = re.compile(r"NextN|MTP|Eagle|Draft|Medusa", re.ASCII | re.IGNORECASE)


# Lines of which nothing is left before what they say may have lost a rank; of so many, not all have.
_LEAST = 2


class Pool(NamedTuple):
    """A cache that a line says was allocated."""

    bytes: Heard
    tokens: object


def settle(start: Start) -> None:
    """Give each rank one cache, the target's, and one loading."""
    drafts = _drafts(start)
    for process, names in start.heard.items():
        _first_loading(start, names, drafts=drafts)
        _cache(start, process, names, drafts=drafts)
        _states(start, names, drafts=drafts)


def _drafts(start: Start) -> bool | None:
    """Whether a drafter runs beside the model; None where the settings do not say."""
    for printed in start.printed:
        if "speculative_algorithm" in printed.settings.values:
            return printed.settings.values["speculative_algorithm"] is not None
        if printed.settings.whole:
            return False
    kinds = {str(heard.value) for _, heard in start.values("kind")}
    return True if any(_DRAFTS.search(kind) for kind in kinds) else None


def _first_loading(start: Start, names: dict[str, list[Heard]], *, drafts: bool | None) -> None:
    if drafts is None and not _is_one_loading(names):
        for name in ("free_before_bytes", *(() if "kind" in names else _LOADED)):
            if name in names:
                start.leave_out(name, "whether it is of the model or of a drafter is not said", names[name][0].line)
                del names[name]
    if not drafts:
        return
    for name in _LOADED:
        times = names.get(name)
        if times is None:
            continue
        if len({heard.value for heard in times}) > 1:
            names[name] = times[:1]
        else:
            start.leave_out(name, "a drafter is loaded too, and one of both is missing", times[0].line)
            del names[name]


def _is_one_loading(names: dict[str, list[Heard]]) -> bool:
    """Whether what was free before is followed by what is free after the same loading."""
    before, after, used = (list(names.get(name, ())) for name in _LOADED)
    if len(before) != 1 or len(after) != 1 or after[0].line < before[0].line:
        return False
    gone = int(before[0].value) - int(after[0].value)
    if not used:
        return gone >= 0
    most_apart = 2 * (before[0].rounding + after[0].rounding + used[0].rounding)
    return bool(abs(gone - int(used[0].value)) <= most_apart)


def _cache(start: Start, process: Process, names: dict[str, list[Heard]], *, drafts: bool | None) -> None:
    pools = _pools(names)
    both = names.pop("both_bytes", None)
    if both and len({heard.value for heard in both}) == 1:
        names["kv_cache_bytes"] = both[:1]
    elif pools:
        chosen, reason = _chosen(start, process, pools, drafts=drafts)
        if chosen is None or reason:
            start.leave_out("kv_cache_bytes", reason, pools[-1].bytes.line)
        else:
            names["kv_cache_bytes"] = [chosen.bytes]
            if len({pool.bytes.value for pool in pools}) > 1:
                names["draft_cache_bytes"] = [pools[-1].bytes]


def _pools(names: dict[str, list[Heard]]) -> list[Pool]:
    """The caches of a rank in the order of their lines; keys and values of a line belong together."""
    tokens = {heard.line: heard.value for heard in names.pop("pool_tokens", ())}
    values = {heard.line: heard for heard in names.pop("value_bytes", ())}
    found = list(names.pop("latent_bytes", ()))
    for keys in names.pop("key_bytes", ()):
        other = values[keys.line]
        whole = int(keys.value) + int(other.value)
        found.append(keys._replace(value=whole, rounding=keys.rounding + other.rounding))
    return [Pool(heard, tokens.get(heard.line)) for heard in sorted(found, key=lambda heard: heard.line)]


def _chosen(start: Start, process: Process, pools: list[Pool], *, drafts: bool | None) -> tuple[Pool | None, str]:
    if len({pool.bytes.value for pool in pools}) == 1:
        return pools[0], _doubt(start, process, pools[-1], drafts=drafts)
    if drafts and len(pools) == 2 and pools[0].tokens == pools[1].tokens:  # noqa: PLR2004  # target and drafter
        return pools[0], ""
    return None, "more than one cache was allocated, and which of them make up the model's is not said"


def _doubt(start: Start, process: Process, pool: Pool, *, drafts: bool | None) -> str:
    """Why the only cache that was said may not be all of the model's; empty where it is."""
    names = start.heard[process]
    kinds = [*(str(heard.value) for heard in names.get("kind", ())), str(start.setting("model_path"))]
    if drafts:
        return "a drafter has a cache too, and one of both is missing"
    if any(_WINDOWED.search(_SIGNS.sub("", kind.casefold())) for kind in kinds):
        return "the model's windows have a cache of their own, and what both take together is not said"
    if drafts is None and not _is_what_is_gone(names, pool):
        return "whether it is the cache of the model or of a drafter is not said"
    if _is_less_than_gone(start, names, pool):
        return "less was allocated by it than is gone; another cache is missing"
    last = max((heard.line for times in names.values() for heard in times), default=0)
    return "the log ends before it is said whether that was all of the cache" if last < pool.bytes.line else ""


def _is_what_is_gone(names: dict[str, list[Heard]], pool: Pool) -> bool:
    """Whether what is free before and behind the cache, in lines around its own, says that the cache lies between."""
    after, behind = names.get("free_after_bytes", []), names.get("pool_free_bytes", [])
    if len(after) != 1 or len(behind) != 1 or not after[0].line < pool.bytes.line < behind[0].line:
        return False
    rounding = 2 * (after[0].rounding + behind[0].rounding + pool.bytes.rounding)
    return int(after[0].value) - int(behind[0].value) >= int(pool.bytes.value) - rounding


def _is_less_than_gone(start: Start, names: dict[str, list[Heard]], pool: Pool) -> bool:
    """Whether a cut line, or the free memory behind the caches, says that there are more of them."""
    if any("_bytes" in each.what and "pool_tokens" in each.what for each in start.left_out):
        return True
    after, behind = names.get("free_after_bytes"), names.get("pool_free_bytes")
    if not after or not behind:
        return False
    states = sum(int(heard.value) for name in _STATES for heard in names.get(name, ()))
    gone = int(after[0].value) - int(behind[0].value) - states
    return gone > int(pool.bytes.value) * _MOST_BESIDE + _TABLES_BYTES


def _states(start: Start, names: dict[str, list[Heard]], *, drafts: bool | None) -> None:
    """Recurrent states are the convolution's and the scan's, and those of tokens that a drafter guesses."""
    if drafts is not False and "conv_bytes" in names and "drafted_ssm_bytes" not in names:
        start.leave_out("state_bytes", "states of guessed tokens may stand behind them", names["conv_bytes"][0].line)
        return
    parts = [names.pop(name) for name in _STATES if name in names]
    if parts and all(len(times) == 1 for times in parts):
        found = [times[0] for times in parts]
        size, rounding = sum(int(heard.value) for heard in found), sum(heard.rounding for heard in found)
        names["state_bytes"] = [found[0]._replace(value=size, rounding=rounding)]


def _replicas(start: Start) -> int | None:
    """Replicas with ranks of their own; those of attention share the ranks of tensor parallelism."""
    shares = start.setting("enable_dp_attention") is True
    return 1 if shares else start.layout_of("data_parallel")


def _alone(start: Start, process: Process) -> bool:
    if process.label:
        return False
    if not start.bare:
        # A rank stands in the bracket of the time, which is lost with it.
        return start.speaks_twice(process, first=1)
    return start.speaks_twice(process) and start.nameless_lines() > _LEAST


def _absent() -> Mapping[str, int]:
    return {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1}


_OF_RANKS = frozenset({*_LOADED, "kv_cache_bytes", "kv_capacity_tokens"})


def mixed(start: Start) -> str:
    """Whether ranks with and without a name speak, or what was free before and after a loading does not add up."""
    speaking = {bool(process.label) for process, names in start.heard.items() if _OF_RANKS & names.keys()}
    if len(speaking) > 1:
        return "lines of ranks with and without a name"
    for names in start.heard.values():
        before, after, used = (list(names.get(name, ())) for name in _LOADED)
        if len(before) == len(after) == len(used) == 1 and not _is_one_loading(names):
            return "what was free before loading, what was taken and what is left do not add up"
    return ""


SGLANG = Grammar(
    engine="sglang",
    hints=(
        *(
            "server_args=",
            "oad weight",
            "Cache is allocated",
            "SWAKVPool",
            "emory pool end",
            "graph end",
            "max_total_num",
        ),
        *("Not enough memory", "out of memory"),
    ),
    forms=FORMS,
    settings=SETTINGS,
    absent=_absent(),
    opening=frozenset({"server_args=ServerArgs"}),
    order=(
        ("Load weight begin",),
        ("Load weight end",),
        ("KV Cache is", "SWAKVPool", "Mamba Cache"),
        ("Memory pool end",),
        ("Capture", "max_total_num_tokens"),
    ),
    settle=settle,
    mixed=mixed,
    alone=_alone,
    replicas=_replicas,
    labelled=("TP", "DP", "PP", "EP", "gpu"),
)
