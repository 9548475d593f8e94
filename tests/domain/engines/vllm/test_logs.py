"""Public start-up logs: what vLLM printed against what is quoted, with the reach that the service promises."""

import math
import statistics
from collections.abc import Iterator
from typing import Any

import pytest

from service.domain.engines.vllm import Held
from tests.domain.engines.vllm.conftest import GIB, Hold, cases

STARTS, ARITHMETIC, WEIGHTS = cases("starts"), cases("arithmetic"), cases("weights")
PLANNED = [
    pytest.param(row["model"], plan, id=f"{row['model']}-{plan['context_tokens']}")
    for row in cases("planner")
    for plan in row["plans"]
]
PLENTY_BYTES = 10**13


def figure(held: Held, name: str) -> float:
    return {
        "kv_cache_gib": held.cache_bytes / GIB,
        "weights_gib": held.rank.weight_bytes / GIB,
        "kv_capacity_tokens": held.capacity_tokens,
        "max_concurrency": held.concurrency,
    }[name]


def error(held: Held, name: str, right: float) -> float:
    return abs(figure(held, name) - right) / right


def errors(rows: list[dict[str, Any]], quote: Hold, stratum: str, names: tuple[str, ...] = ()) -> Iterator[float]:
    for case in rows:
        if case["stratum"] == stratum:
            held = quote(**case["question"])
            yield from (error(held, n, right) for n, right in case["figures"].items() if not names or n in names)


def interval_of(held: Held, name: str) -> tuple[float, float]:
    """The quoted ends of a figure; tokens follow concurrency."""
    low, high = held.low_blocks / held.blocks, held.high_blocks / held.blocks
    return figure(held, name) * low, figure(held, name) * high


def by_id(case: dict[str, Any]) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", [case for case in STARTS if "outside" not in case], ids=by_id)
def test_a_start_is_quoted_within_the_tolerance_of_its_log(case: dict[str, Any], quote: Hold) -> None:
    held = quote(**case["question"])
    for name, right in case["figures"].items():
        assert error(held, name, right) <= case["tolerance"], name


@pytest.mark.parametrize("case", [case for case in STARTS if "outside" in case], ids=by_id)
def test_a_start_outside_its_tolerance_is_within_it_once_all_settings_are_said(
    case: dict[str, Any], quote: Hold
) -> None:
    held, told = quote(**case["question"]), quote(**case["question"], **case["unsaid"])
    assert any(error(held, name, right) > case["tolerance"] for name, right in case["figures"].items())
    for name, right in case["figures"].items():
        assert error(told, name, right) <= case["tolerance"], name


@pytest.mark.parametrize("case", WEIGHTS, ids=by_id)
def test_weights_as_loaded_are_those_of_the_log(case: dict[str, Any], quote: Hold) -> None:
    held = quote(**case["question"])
    for name, right in case["figures"].items():
        assert error(held, name, right) <= case["tolerance"], name


@pytest.mark.parametrize("case", ARITHMETIC, ids=by_id)
def test_blocks_of_a_given_cache_are_those_of_the_log(case: dict[str, Any], quote: Hold) -> None:
    held = quote(**case["question"])
    for name, right in case["figures"].items():
        assert error(held, name, right) <= case["tolerance"], name


@pytest.mark.parametrize("model, plan", PLANNED)
def test_a_plan_is_exactly_the_one_of_its_own_planner(model: str, plan: dict[str, Any], quote: Hold) -> None:
    held = quote(
        model=model,
        engine_version="0.33.0",
        weight_dtype="bf16",
        kv_dtype="bf16",
        context_tokens=plan["context_tokens"],
        max_batched_tokens=plan["max_batched_tokens"],
        max_sequences_limit=256,
        prefix_caching=plan["prefix_caching"],
        kv_cache_bytes=40 * GIB,
        memory_bytes=PLENTY_BYTES,
    )
    assert (held.blocks, held.rank.block_bytes, len(held.plan.groups)) == (
        plan["blocks"],
        plan["block_bytes"],
        plan["groups"],
    )
    assert held.capacity_tokens == plan["kv_capacity_tokens"]
    assert round(held.concurrency, 4) == plan["max_concurrency"]


def test_half_of_the_field_caches_are_quoted_within_one_and_a_half_percent(quote: Hold) -> None:
    assert statistics.median(errors(STARTS, quote, "field", ("kv_cache_gib",))) < 0.015


def test_nine_tenths_of_field_starts_with_ten_gib_are_within_eight_percent(quote: Hold) -> None:
    large = [case for case in STARTS if case["figures"].get("kv_cache_gib", 0) > 10]
    found = sorted(errors(large, quote, "field"))
    assert found[math.ceil(0.9 * len(found)) - 1] < 0.08


def test_the_sweep_of_one_machine_type_alone_is_quoted_within_half_a_percent(quote: Hold) -> None:
    assert statistics.median(errors(STARTS, quote, "sweep")) < 0.005


def test_the_interval_holds_nine_tenths_of_field_figures_and_is_no_wider_than_twice_their_errors(quote: Hold) -> None:
    held_figures, widths, off = [], [], sorted(errors(STARTS, quote, "field"))
    for case in STARTS:
        if case["stratum"] != "field":
            continue
        held = quote(**case["question"])
        for name, right in case["figures"].items():
            low, high = interval_of(held, name)
            held_figures.append(low * (1 - 1e-3) <= right <= high * (1 + 1e-3))
            widths.append((high - low) / right)
    assert sum(held_figures) >= 0.9 * len(held_figures)
    assert statistics.median(widths) <= 2 * off[math.ceil(0.9 * len(off)) - 1]
