"""Different questions, drawn from the whole catalog: models, GPUs, contexts, number formats and layouts.

The draw is the same in every run over the same catalog. Every question here has an answer, at /fit and /traffic alike.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from service.answers import fit_answer, traffic_answer
from service.domain.catalog import CatalogKind
from service.domain.errors import QuoteError
from service.storage.snapshot import Snapshot

Asked = dict[str, Any]

SEED = 2
# Half of the formats are left to the model, as most people do.
WEIGHTS = (None, None, None, None, "bf16", "fp16", "fp8", "int8", "int4", "awq", "gptq", "nvfp4", "q4_k_m")
CACHES = (None, None, None, "auto", "bf16", "fp16", "fp8", "int8")
LAYOUTS: tuple[Asked, ...] = (
    *({},) * 5,
    {"tensor_parallel": 2},
    {"tensor_parallel": 4},
    {"gpu_count": 8},
    {"tensor_parallel": 4, "pipeline_parallel": 2},
    {"tensor_parallel": 2, "data_parallel": 4},
)
EXTRAS: tuple[Asked, ...] = (
    *({},) * 5,
    {"batch_size": 16},
    {"memory_utilization": 0.9},
    {"reserve_bytes": 2_000_000_000},
    {"memory_basis": "visible"},
    {"shared_prefix_tokens": 512},
)


def different_questions(catalog: Snapshot, count: int) -> list[Asked]:
    """So many questions, no two of them equal."""
    models, gpus = catalog.ids(CatalogKind.MODEL), catalog.ids(CatalogKind.GPU)
    draws = Random(SEED)
    found: dict[bytes, Asked] = {}
    while len(found) < count:
        asked = _drawn(draws, draws.choice(models), draws.choice(gpus))
        if _has_answers(asked, catalog):
            found[body(asked)] = asked
    return list(found.values())


def readable_models(catalog: Snapshot) -> Iterator[str]:
    """Models that are quoted; the rest wait for a reader of their architecture."""
    least = {"memory_bytes": 10**12, "context_tokens": 1024}
    return (name for name in catalog.ids(CatalogKind.MODEL) if _has_answers({"model": name, **least}, catalog))


def config_questions(questions: list[Asked], catalog: Snapshot) -> list[Asked]:
    """The same questions with the model's published config in place of its name."""
    return [_with_config(asked, catalog) for asked in questions]


def body(asked: Mapping[str, Any]) -> bytes:
    return json.dumps(asked, separators=(",", ":")).encode()


def refusals(questions: list[Asked]) -> dict[str, list[Asked]]:
    """Questions that are refused, by what is wrong with them; no two of one kind are equal."""
    return {kind: [spoil(asked, number) for number, asked in enumerate(questions)] for kind, spoil in _SPOILERS.items()}


def mixed(kinds: Mapping[str, list[Asked]]) -> list[Asked]:
    """One of each kind in turn, as long as one kind's list."""
    columns = list(kinds.values())
    return [columns[number % len(columns)][number] for number in range(len(columns[0]))]


def _drawn(draws: Random, model: str, gpu: str) -> Asked:
    asked: Asked = {"model": model, "gpu": gpu, "context_tokens": draws.randrange(1024, 32_768)}
    for name, formats in (("weight_dtype", WEIGHTS), ("kv_dtype", CACHES)):
        chosen = draws.choice(formats)
        if chosen is not None:
            asked[name] = chosen
    return asked | draws.choice(LAYOUTS) | draws.choice(EXTRAS)


def _has_answers(asked: Asked, catalog: Snapshot) -> bool:
    try:
        return bool(fit_answer(asked, catalog)) and bool(traffic_answer(asked, catalog))
    except QuoteError:
        return False


def _with_config(asked: Asked, catalog: Snapshot) -> Asked:
    config = catalog.facts(CatalogKind.MODEL, asked["model"])["config"]
    return {"config": config} | {name: value for name, value in asked.items() if name != "model"}


def _misspelt(name: str, number: int) -> str:
    return f"{name[:-1]}~{number}"


_SPOILERS: dict[str, Callable[[Asked, int], Asked]] = {
    "unknown model": lambda asked, n: asked | {"model": _misspelt(asked["model"], n)},
    "unknown gpu": lambda asked, n: asked | {"gpu": _misspelt(asked["gpu"], n)},
    "unknown name": lambda asked, n: asked | {f"contxt_tokens_{n}": 4096},
    "wrong type": lambda asked, n: asked | {"context_tokens": str(n)},
    "out of range": lambda asked, n: asked | {"batch_size": -n},
    "wrong layout": lambda asked, n: asked | {"gpu_count": 1009 + n, "tensor_parallel": 1},
}


def rotated(questions: list[Asked], count: int) -> Iterator[list[Asked]]:
    """Slices of so many, one a round: each round asks other questions, until all were asked."""
    start = 0
    while True:
        yield [questions[(start + number) % len(questions)] for number in range(count)]
        start += count
