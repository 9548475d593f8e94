"""What measurements of cards that a setup lists one by one are taken for."""

from typing import Any

import pytest

from service.domain.measurement import Verdict
from tests.domain.judging import GEFORCE, H100, LLAMA, TOTAL, judged, row, verdict

MIXED = {**LLAMA, "engine": "llama.cpp", "gpus": [GEFORCE, H100]}


@pytest.mark.parametrize(
    "kind, values",
    [
        ("engine_capacity", {"kv_cache_bytes": 90 * 2**30}),
        ("decode_step", {"seconds": 1e-4}),
        ("all_reduce", {"bytes": 1 << 28, "ranks": 2, "seconds": 1e-9}),
    ],
)
def test_what_cards_of_several_kinds_do_together_is_kept_and_compared_with_none(
    kind: str, values: dict[str, Any]
) -> None:
    found = judged(row(kind, values, MIXED))

    assert (found.verdict, found.gpu_id) == (Verdict.UNMATCHED, H100)
    assert found.detail == (
        "setup.gpus lists cards of several kinds: what they hold or do together is no figure of one GPU."
    )
    assert judged(row(kind, values, {**MIXED, "gpus": [H100, H100]})).verdict is Verdict.QUARANTINED


def test_a_figure_of_one_device_is_its_own_whatever_stands_beside_it() -> None:
    assert verdict("device_memory", {"total_bytes": TOTAL}, MIXED) is Verdict.ACCEPTED


def test_a_listed_card_that_nobody_knows_leaves_a_row_for_later() -> None:
    found = judged(row("engine_capacity", {"kv_cache_bytes": 90 * 2**30}, {**MIXED, "gpus": [H100, "RTX 9090"]}))

    assert found.verdict is Verdict.UNMATCHED
    assert "'RTX 9090'" in (found.detail or "")


def test_a_list_without_the_rows_own_device_contradicts_it() -> None:
    found = judged(row("device_memory", {"total_bytes": TOTAL}, {"gpus": [GEFORCE, GEFORCE]}))

    assert (found.verdict, found.detail) == (
        Verdict.QUARANTINED,
        f"setup.gpus does not list {H100}, which gpu.name is.",
    )
