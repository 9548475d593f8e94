"""text-generation-inference: the router prints tokens of a batch, the shards blocks; no bytes."""

from __future__ import annotations

from .forms import form
from .grammar import Grammar
from .starts import Start

_LOGS = "public start-up logs"

FORMS = (
    form("Args {args:dict}", "0.6.0", _LOGS),
    form("Setting max batch total tokens to {kv_capacity_tokens:count}", "1.0.0", _LOGS),
    form("Model does not support automatic max batch total tokens", "1.0.0", _LOGS),
    form("KV-cache blocks: {blocks:count}, size: {block_tokens:count}", "2.4.0", _LOGS),
    form("Not enough memory to handle {:count} prefill tokens.{*}", "1.0.0", _LOGS, refuses="kv_cache"),
)

SETTINGS = {
    "model_id": "model",
    "quantize": "weight_dtype",
    "dtype": "compute_dtype",
    "kv_cache_dtype": "kv_dtype",
    "num_shard": "tensor_parallel",
    "max_total_tokens": "context_limit_tokens",
    "cuda_memory_fraction": "memory_utilization",
    "max_batch_prefill_tokens": "max_batched_tokens",
}
_FIXED = "Model does not support automatic max batch total tokens"


def settle(start: Start) -> None:
    """Confirm the tokens by the blocks, and drop the constant of models that are not measured."""
    if any(mark == _FIXED for mark, _ in start.marks):
        for process, heard in list(start.values("kv_capacity_tokens")):
            start.leave_out(
                "kv_capacity_tokens", "the engine takes a constant for this model and measures nothing", heard.line
            )
            start.heard[process].pop("kv_capacity_tokens", None)
    held = _held(start)
    for names in start.heard.values():
        for at, heard in enumerate(names.get("kv_capacity_tokens", ())):
            if heard.value in held:
                names["kv_capacity_tokens"][at] = heard._replace(sure=True)
        for at, heard in enumerate(names.get("block_tokens", ())):
            if held & {each.value for _, each in start.values("kv_capacity_tokens")}:
                names["block_tokens"][at] = heard._replace(sure=True)


def _held(start: Start) -> set[object]:
    blocks = [int(heard.value) for _, heard in start.values("blocks")]
    sizes = [int(heard.value) for _, heard in start.values("block_tokens")]
    return {count * size for count in blocks for size in sizes}


TGI = Grammar(
    engine="tgi",
    hints=("Args", "max batch total tokens", "KV-cache blocks", "Not enough memory"),
    worth=("Args {", "max batch total", "KV-cache"),
    forms=FORMS,
    settings=SETTINGS,
    opening=frozenset({"Args"}),
    settle=settle,
)
