"""llama.cpp's log. Sizes are MiB of a device; nothing is budgeted, so what it allocates is what the settings ask for.

Caches of a device are printed one line each and once more together; the sum of the one must be the sum of the other,
or a line is missing.
"""

from __future__ import annotations

import re

from .forms import Value, form, meaning
from .grammar import Grammar
from .lines import Process
from .starts import Heard, Start

_LOGS = "public start-up logs"
_CONTEXTS = ("llama_context", "llama_new_context_with_model", "llama_init_from_model")
_CACHES = ("llama_kv_cache_init", "llama_kv_cache_unified", "llama_kv_cache")
# The older `llm_load_tensors` ends in it.
_LOADING = ("load_tensors",)
_STATES = ("llama_memory_recurrent", "llama_kv_cache_recurrent")
_DRAFTS_WITHIN = "creating MTP draft context against the target model"

FORMS = (
    form("build: {version:count} ({:word}) with {*}", "b3600", _LOGS),
    form("build = {version:count} ({:word})", "b1000", _LOGS),
    form("build_info: b{version:count}-{:word}", "b8680", _LOGS),
    form('build info \\| tid="{:word}" timestamp={:count} build={version:count} commit="{*}', "b2000", _LOGS, "b3500"),
    form(
        "ggml_cuda_init: found {gpu_count:count} <CUDA|ROCm|HIP> devices[ (Total VRAM: {vram_bytes:mib})]:",
        "b1000",
        _LOGS,
    ),
    form("ggml_vulkan: Found {gpu_count:count} Vulkan devices:", "b2000", _LOGS),
    form("using device {device:word} ({gpu:named}) [({:named}) ]- {free_before_bytes:mib} free", "b4000", _LOGS),
    form(
        "llama_model_loader: loaded meta data with {:count} key-value pairs and {:count} tensors from {model:path}"
        " (version {*}",
        "b1500",
        _LOGS,
    ),
    form("loading draft model {*}", "b4500", _LOGS),
    form(f"{_DRAFTS_WITHIN} {{*}}", "b9180", _LOGS),
    *(form(f"{part}: {{device:word}} [model ]buffer size = {{weight_bytes:mib}}", "b1500", _LOGS) for part in _LOADING),
    *(
        form(f"{part}: offloaded {{gpu_layers:count}}/{{all_layers:count}} layers to GPU", "b1500", _LOGS)
        for part in _LOADING
    ),
    *(form(f"{part}: offload<ing|ed> {{*}}", "b1500", _LOGS) for part in _LOADING),
    *(form(f"{part}: {{device:word}} KV buffer size = {{cache_bytes:mib}}", "b1500", _LOGS) for part in _CACHES),
    *(form(f"{part}: {{device:word}} <RS|KV> buffer size = {{states_bytes:mib}}", "b5500", _LOGS) for part in _STATES),
    *(
        form(
            f"{part}: size = {{total_bytes:mib}} ({{:pad}}{{cells:count}} cells,{{:pad}}{{layers:count}} layers,"
            "{:pad}[{slots:count}/]{streams:count} seqs), K {*}",
            "b5500",
            _LOGS,
        )
        for part in _CACHES
    ),
    *(
        form(
            f"{part}: size = {{states_total_bytes:mib}} ({{:pad}}{{:count}} cells,{{:pad}}{{:count}} layers,{{:pad}}"
            "[{:count}/]{:count} seqs), R {*}",
            "b5500",
            _LOGS,
        )
        for part in _STATES
    ),
    *(
        form(
            f"{part}: size = {{states_total_bytes:mib}} ({{:pad}}{{:count}} cells,{{:pad}}{{:count}} layers,{{:pad}}"
            "{:count} seqs{:pad}{kept_states:count} rs_seq), R {*}",
            "b9180",
            "llama.cpp pull request 22673, and public start-up logs",
        )
        for part in _STATES
    ),
    *(
        form(
            f"{part}: KV self size{{:pad}}= {{total_bytes:mib}}, K ({{:word}}): {{:mib}}, V ({{:word}}): {{:mib}}",
            "b1500",
            _LOGS,
            "b5400",
        )
        for part in _CONTEXTS
    ),
    *(
        form(f"{part}: {{device:word}} compute buffer size = {{activation_bytes:mib}}", "b1500", _LOGS)
        for part in (*_CONTEXTS, "sched_reserve")
    ),
    *(form(f"{part}: {{device:word}} output buffer size = {{:mib}}", "b2500", _LOGS) for part in _CONTEXTS),
    *(
        form(f"{part}: creating {{:pad}}[non-]SWA KV cache, size = {{announced_cells:count}} cells", "b5400", _LOGS)
        for part in ("llama_kv_cache_unified_iswa", "llama_kv_cache_iswa")
    ),
    *(form(f"{part}: n_ctx{{:pad}}= {{cells_asked:count}}", "b1500", _LOGS) for part in _CONTEXTS),
    *(
        form(
            f"{part}: n_ctx_<per_seq|seq> ({{context_limit_tokens:count}}) {{:compare}} n_ctx_train ({{:count}}){{*}}",
            "b4500",
            _LOGS,
        )
        for part in _CONTEXTS
    ),
    *(
        meaning(f"{part}: flash_attn{{:pad}}= <{printed}>", "b2500", _LOGS, attention_backend=asked)
        for part in _CONTEXTS
        for printed, asked in (("1|enabled", "on"), ("0|disabled", "off"))
    ),
    *(
        meaning(f"{part}: Flash Attention was auto, set to {printed}", "b6325", _LOGS, attention_backend=asked)
        for part in (*_CONTEXTS, "sched_reserve")
        for printed, asked in (("enabled", "on"), ("disabled", "off"))
    ),
    *(form(f"{part}: n_{{*}}", "b1500", _LOGS) for part in _CONTEXTS),
    *(form(f"{part}: graph {{*}}", "b1500", _LOGS) for part in (*_CONTEXTS, "sched_reserve")),
    form("failed to allocate {*}", "b2000", _LOGS, refuses="out_of_memory"),
    form("cudaMalloc failed: out of memory{*}", "b2000", _LOGS, refuses="out_of_memory"),
)

_DEVICE = re.compile(r"(?:CUDA|ROCm|HIP|Vulkan|SYCL|Metal|MTL|MUSA|CANN|OpenCL)(?P<number>\d{0,3})\Z", re.ASCII)
_HELD = ("weight_bytes", "kv_cache_bytes", "activation_bytes")
_PAIRS = (("cache_bytes", "total_bytes", "kv_cache_bytes"), ("states_bytes", "states_total_bytes", "state_bytes"))


def settle(start: Start) -> None:
    """Add up what each device keeps, where the sums of both kinds of lines agree, and forget the host's share."""
    ended = _is_whole(start)
    _tokens(start)
    _memory(start)
    for parts, totals, name in _PAIRS:
        _add_up(start, parts, totals, name, whole=ended)
    _forget_states_of_drafts(start)
    for process in [each for each in start.heard if each.label and not is_device(each.label)]:
        del start.heard[process]
    for names in start.heard.values():
        _one_only(start, names, "weight_bytes")


def _is_whole(start: Start) -> bool:
    """Whether the lines before and behind the caches are there, as many caches as were announced, and none twice."""
    for name in ("total_bytes", "states_total_bytes"):
        sizes_said = [(heard.value, heard.column) for _, heard in start.values(name)]
        if len(set(sizes_said)) < len(sizes_said):
            return False
    caches = [heard.line for name in ("cache_bytes", "states_bytes") for _, heard in start.values(name)]
    before = [heard.line for _, heard in start.values("cells_asked")]
    behind = [heard.line for _, heard in start.values("activation_bytes")]
    announced = sum(1 for _ in start.values("announced_cells"))
    sizes = sum(1 for _ in start.values("cells"))
    for names in start.heard.values():
        names.pop("announced_cells", None)
    layers = [int(heard.value) for _, heard in start.values("layers")]
    # The output counts as one more; beside recurrent layers, only some keep tokens.
    wanted = min((int(heard.value) - 1 for _, heard in start.values("all_layers")), default=None)
    beside = any(True for _ in start.values("states_total_bytes"))
    if layers and (wanted is None or (not beside and sum(layers) < wanted)):
        return False
    if layers and not _held_tokens(start) & {heard.value for _, heard in start.values("cells_asked")}:
        return False
    # A context is made once, of layers that were loaded once; else two logs are mixed.
    if len(before) != 1 or sum(1 for _ in start.values("all_layers")) > 1:
        return False
    if not (caches and behind) or announced not in {0, sizes}:
        return False
    return min(before) < min(caches) and max(caches) < max(behind)


def _add_up(start: Start, parts: str, totals: str, name: str, *, whole: bool) -> None:
    printed = [heard for _, heard in start.values(parts)]
    together = [heard for _, heard in start.values(totals)]
    apart = _sum(printed) - _sum(together)
    agree = whole and bool(printed) and abs(apart) <= sum(heard.rounding for heard in (*printed, *together))
    for names in start.heard.values():
        names.pop(totals, None)
        times = names.pop(parts, None)
        if times and agree:
            rounding = sum(heard.rounding for heard in times)
            names[name] = [times[-1]._replace(value=_sum(times), rounding=rounding)]
        elif times:
            reason = "the caches of the devices do not add up to what was allocated; a line is missing"
            start.leave_out(name, reason, times[-1].line)


def _forget_states_of_drafts(start: Start) -> None:
    """Leave out states where a sequence has one for each token of a draft beside its own: drafts are not quoted."""
    kept = [int(heard.value) for names in start.heard.values() for heard in names.pop("kept_states", ())]
    for names in start.heard.values() if any(kept) else ():
        for heard in names.pop("state_bytes", ()):
            reason = f"they are {1 + max(kept)} for each sequence, to take a draft back"
            start.leave_out("state_bytes", reason, heard.line)


def _held_tokens(start: Start) -> set[Value]:
    """Cells of each cache in all of its streams."""
    sizes: dict[int, dict[str, int]] = {}
    for name in ("cells", "streams"):
        for _, heard in start.values(name):
            sizes.setdefault(heard.line, {})[name] = int(heard.value)
    return {size["cells"] * size["streams"] for size in sizes.values() if len(size) == 2}  # noqa: PLR2004  # both


def _tokens(start: Start) -> None:
    """Cells of the longest cache, in all streams; `n_ctx` at a line's end is confirmed by them."""
    held = _held_tokens(start)
    for names in start.heard.values():
        if "slots" in names:
            names["parallel_slots"] = names.pop("slots")
        for name in ("cells", "streams", "layers", "all_layers"):
            names.pop(name, None)
        asked = names.pop("cells_asked", [])
        if asked:
            names["contexts"] = asked
        found = [heard for heard in asked if heard.sure or int(heard.value) in held]
        if found:
            names["kv_capacity_tokens"] = [found[-1]._replace(sure=True)]
        elif asked:
            start.leave_out(
                "kv_capacity_tokens",
                "n_ctx stands at the end of a line, and no cache of that size confirms it",
                asked[-1].line,
            )


def _memory(start: Start) -> None:
    """Memory of the only device that there is; of several their sum alone is printed."""
    printed = [heard for names in start.heard.values() for heard in names.pop("vram_bytes", ())]
    own = [names for process, names in start.heard.items() if is_device(process.label)]
    if len(printed) == len(own) == 1 and {heard.value for _, heard in start.values("gpu_count")} == {1}:
        own[0]["memory_bytes"] = printed


def _sum(times: list[Heard]) -> int:
    return sum(int(heard.value) for heard in times)


def is_device(label: str) -> bool:
    """Whether a buffer of that name is a GPU's, and not the host's."""
    return _DEVICE.match(label) is not None


def _devices(start: Start) -> tuple[str, ...]:
    """Each device by its line; nothing where one holds a part whose own line is missing."""
    named = [(heard.line, process.label, str(heard.value)) for process, heard in start.values("gpu") if heard.sure]
    labels = [label for _, label, _ in named]
    holding = {process.label for name in _HELD for process, _ in start.values(name) if is_device(process.label)}
    whole = holding <= set(labels) and len(set(labels)) == len(labels) and all(map(is_device, labels))
    return tuple(name for _, _, name in sorted(named)) if whole else ()


def _one_only(start: Start, names: dict[str, list[Heard]], name: str) -> None:
    times = names.get(name, [])
    if len({heard.value for heard in times}) > 1:
        start.leave_out(name, "the device holds more than one part of it", times[-1].line)
        del names[name]


def _alone(start: Start, process: Process) -> bool:
    """Whether a device is the only one: found, or chosen among several.

    Of several the chosen one holds, with the host, all of the cache; else lines of another may be lost.
    """
    counts = {heard.value for _, heard in start.values("gpu_count")}
    chosen = len(_devices(start)) == 1 and {"kv_cache_bytes", "activation_bytes"} <= start.heard[process].keys()
    return is_device(process.label) and (counts == {1} or chosen)


def mixed(start: Start) -> str:
    """Whether a model was loaded twice, or two contexts were made."""
    for name, what in (("model", "models"), ("contexts", "contexts")):
        if sum(1 for _ in start.values(name)) > 1:
            return f"lines of two {what}"
    for spellings in (_CONTEXTS, _CACHES):
        used = {each for each in spellings if any(mark.startswith(f"{each}:") for mark, _ in start.marks)}
        if len(used) > 1:
            return f"lines of {' and '.join(sorted(used))}, which no release has both"
    return ""


LLAMA_CPP = Grammar(
    engine="llama.cpp",
    hints=(
        *(
            "build:",
            "build =",
            "build_info:",
            "build info |",
            "ggml_cuda_init: found",
            "ggml_vulkan: Found",
            "using device",
            "loaded meta data",
        ),
        *(
            "draft model",
            "draft context",
            "load_tensors:",
            "llama_kv_cache",
            "llama_memory_recurrent:",
            "llama_context:",
        ),
        *("llama_new_context_with_model:", "llama_init_from_model:", "sched_reserve:", "failed to allocate"),
        "cudaMalloc failed",
    ),
    worth=("buffer size", "cells,", "n_ctx", "layers to GPU", "KV self", "using device", "loaded meta data"),
    forms=FORMS,
    opening=frozenset({"build:", "build =", "build_info: b", 'build info | tid="'}),
    reopening=frozenset({"ggml_cuda_init: found", "ggml_vulkan: Found"}),
    naming=frozenset({"llama_model_loader: loaded meta data with"}),
    drafting=frozenset({"loading draft model", _DRAFTS_WITHIN}),
    drafting_within=frozenset({_DRAFTS_WITHIN}),
    order=(
        # Builds of 2026 read the file before they choose devices, those before choose first.
        ("using device", "llama_model_loader"),
        ("load_tensors",),
        tuple(f"{part}: n_ctx" for part in _CONTEXTS),
        (*_CACHES, *_STATES),
        tuple(f"{part}: graph" for part in (*_CONTEXTS, "sched_reserve")),
    ),
    nameless=True,
    settle=settle,
    mixed=mixed,
    alone=_alone,
    devices=_devices,
    core=frozenset(),
)
