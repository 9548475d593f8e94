"""Ollama's log: one line a device in logfmt, with one digit behind the point; older releases print estimates alone."""

from __future__ import annotations

from .forms import form
from .grammar import Grammar
from .llama_cpp import is_device
from .starts import Start

_LOGS = "public start-up logs"

FORMS = (
    form('msg="Listening on {:address} (version {version:word})"', "0.1.0", _LOGS),
    form('msg="starting runner" {*}', "0.11.0", _LOGS),
    form('msg="starting llama server" {*}', "0.1.30", _LOGS),
    form(
        'name={device:word} description="{gpu:quoted}" libdirs={:listed} driver={:word}'
        ' pci_id={:word} type={:word} total="{memory_bytes:size}"'
        ' available="{free_before_bytes:size}"',
        "0.12.0",
        _LOGS,
    ),
    form("name=cpu description=cpu libdirs={*}", "0.12.0", _LOGS),
    form(
        'msg=load request="{Operation:commit{:loading} Parallel:{:count} BatchSize:{max_batched_tokens:count}'
        " FlashAttention:{:word} KvSize:{kv_capacity_tokens:count} {*}",
        "0.11.0",
        _LOGS,
    ),
    form('msg=load request="{Operation:{*}', "0.11.0", _LOGS),
    form('msg="model weights" device={device:word} size="{weight_bytes:size}"', "0.9.0", _LOGS),
    form('msg="kv cache" device={device:word} size="{kv_cache_bytes:size}"', "0.9.0", _LOGS),
    form('msg="compute graph" device={device:word} size="{activation_bytes:size}"', "0.9.0", _LOGS),
    form(
        'memory.required.full="{estimated_bytes:size}"{*}',
        "0.1.30",
        "an estimate before anything is allocated",
        "0.10.0",
    ),
)


def settle(start: Start) -> None:
    """Forget the host's share, and what was only estimated."""
    for process, heard in list(start.values("estimated_bytes")):
        start.leave_out(
            "kv_cache_bytes, weight_bytes", "the line is an estimate from before anything was allocated", heard.line
        )
        start.heard[process].pop("estimated_bytes", None)
    for process in [each for each in start.heard if each.label and not is_device(each.label)]:
        del start.heard[process]


OLLAMA = Grammar(
    engine="ollama",
    hints=('msg="', "msg=load", "name=", "memory.required"),
    worth=('msg="model weights"', 'msg="kv cache"', 'msg="compute graph"', "description=", "Operation:commit"),
    forms=FORMS,
    opening=frozenset({'msg="Listening on'}),
    reopening=frozenset({'msg="starting runner"', 'msg="starting llama server"'}),
    kept=frozenset({"version", "gpu", "memory_bytes"}),
    settle=settle,
    alone=lambda start, process: is_device(process.label) and len([p for p in start.heard if p.label]) == 1,
    core=frozenset(),
)
