"""Real out-of-memory under a planted limit: the ceiling that is found is the one that arithmetic says."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure import ceiling
from kvquote_probe.measure.blocks import Attention, FeedForward, LayerPlan
from kvquote_probe.measure.nursery import ExperimentDied, NurseryGone
from kvquote_probe.measure.search import ceiling as searched
from kvquote_probe.measure.setting import Bench, add_device_arguments
from kvquote_probe.readings import Reading
from kvquote_probe.rows import make_row
from service.api.schemas.measurement_rows import read_row
from tests.clients.probe.measure.tiny import config_file

PROBE = "0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10"
CONTEXT = 4096
ELEMENTS = 6 * 2 * 8 * 32 * CONTEXT
"""Cached by a sequence of the wide model: six layers, keys and values, eight heads of 32."""

WEIGHTS = 2 * (6 * (4 * 256 * 256 + 3 * 256 * 128 + 2 * 256) + 2 * 512 * 256 + 256)


def asked(line: str) -> Namespace:
    parser = ArgumentParser()
    add_device_arguments(parser)
    ceiling.add_arguments(parser)
    return parser.parse_args(line.split())


def limited(bench: Bench, limit_bytes: int) -> Bench:
    arguments = {"device": "cpu", "limit_bytes": limit_bytes, "fraction": 1.0}
    return Bench(bench.nursery, arguments, bench.say, given_service=bench.service)


def measured(bench: Bench, line: str) -> list[Reading]:
    return list(ceiling.measure(asked(f"--fraction 1 {line}"), lambda _: None, bench))


@pytest.mark.parametrize("limit", ["allocation", "step"])
def test_the_ceiling_under_a_planted_limit_is_what_arithmetic_says(bench: Bench, tmp_path: Path, limit: str) -> None:
    # Half a sequence is room for pages and for what a step computes.
    small = limited(bench, WEIGHTS + 4 * 2 * ELEMENTS + ELEMENTS)

    (reading,) = measured(small, f"--config {config_file(tmp_path, 'wide')} --context {CONTEXT} --limit {limit}")

    assert (reading.values["passed_sequences"], reading.values["failed_sequences"]) == (4, 5)
    assert reading.values["predicted_sequences"] == 4
    assert read_row(make_row(reading, PROBE), 3).faults == []


@pytest.mark.parametrize("kv_dtype, bits", [("fp8", 8), ("q8_0", 8.5), ("fp32", 32)])
def test_a_cache_in_another_type_is_tried_in_its_own_bytes(
    bench: Bench, tmp_path: Path, kv_dtype: str, bits: float
) -> None:
    small = limited(bench, WEIGHTS + int(2.5 * ELEMENTS * bits / 8))
    config = config_file(tmp_path, "wide")

    readings = measured(small, f"--config {config} --context {CONTEXT} --kv-dtype {kv_dtype}")

    # No kernel of torch attends to such a cache, so there is no step to be tried.
    assert [reading.values["limit"] for reading in readings] == ["allocation"]
    assert readings[0].values["passed_sequences"] == 2


def test_windows_and_latent_vectors_take_as_little_as_they_are_quoted(bench: Bench, tmp_path: Path) -> None:
    small = limited(bench, 30_000_000)

    for name in ("windowed", "latent"):
        line = f"--config {config_file(tmp_path, name)} --context {CONTEXT} --precision 0.5"
        allocation, step = (reading.values for reading in measured(small, line))
        # Never above; below by what the heap had to spare, a few megabytes.
        assert allocation["failed_sequences"] >= 0.75 * allocation["predicted_sequences"]
        assert allocation["passed_sequences"] <= allocation["predicted_sequences"]
        # What a step computes takes its part.
        assert 0 < step["passed_sequences"] <= allocation["passed_sequences"]


def test_a_share_of_the_memory_is_never_passed(bench: Bench, tmp_path: Path) -> None:
    small = limited(bench, 2 * (WEIGHTS + 5 * ELEMENTS))
    line = f"--config {config_file(tmp_path, 'wide')} --context {CONTEXT} --limit allocation --fraction 0.5"

    (reading,) = list(ceiling.measure(asked(line), lambda _: None, small))

    assert reading.values["passed_sequences"] == 2
    assert reading.values["usable_bytes"] == WEIGHTS + 5 * ELEMENTS


MIB = 1 << 20


@pytest.mark.parametrize(
    "attention, sharers, caches",
    [
        (Attention("full", 4, 4, 64, 64), 0, 4),
        (Attention("full", 4, 4, 64, 64), 3, 1),
        (Attention("chunked", 4, 4, 64, 64, CONTEXT // 2), 0, 2),
        (Attention("sliding", 4, 4, 64, 64, CONTEXT // 4), 0, 1),
    ],
)
def test_a_step_has_room_for_what_windows_keep_and_shares_what_is_shared(
    bench: Bench, attention: Attention, sharers: int, caches: int
) -> None:
    """Four layers whose caches for four sequences of the whole context take 16 MiB each."""
    plan = LayerPlan(4, 64, attention, FeedForward(64, gated=True), sharers)
    told = {"plans": [plan.as_arguments()], "torch_type": "float16", "vocabulary_size": 128, "tied": True}
    asked_for = {**told, "limit": "step", "device": "cpu", "context_tokens": CONTEXT, "sequences": 4}

    passed = [
        bench.nursery.run("kvquote_probe.measure.trial:attempt", {**asked_for, "usable_bytes": size}, lambda _: None)[
            "passed"
        ]
        for size in ((16 * caches - 6) * MIB, (16 * caches + 15) * MIB)
    ]

    assert passed == [False, True]


def test_weights_that_do_not_fit_are_told(bench: Bench) -> None:
    with pytest.raises(MeasureError, match="weights alone"):
        measured(limited(bench, 50_000_000), "--model smollm2-135m-instruct --limit allocation")


def test_a_step_that_torch_cannot_make_is_refused_where_it_alone_is_asked_for(bench: Bench, tmp_path: Path) -> None:
    line = f"--config {config_file(tmp_path, 'multi-head')} --context 64 --limit step --kv-dtype fp8"

    with pytest.raises(MeasureError, match="only the allocation"):
        measured(limited(bench, 50_000_000), line)


def test_a_plan_names_the_share_that_is_never_passed() -> None:
    assert "never above 80%" in "\n".join(ceiling.plan(asked("--fraction 0.8")))


class Scripted:
    """A nursery whose attempts end as they are told; each takes `seconds`."""

    def __init__(self, clock: list[float], seconds: float, fits: int, dies: MeasureError | None = None) -> None:
        self._clock, self._seconds, self._fits, self._dies = clock, seconds, fits, dies

    def run(self, _call: str, arguments: dict[str, Any], *_: object) -> dict[str, Any]:
        self._clock[0] += self._seconds
        if arguments["sequences"] > self._fits and self._dies is not None:
            raise self._dies
        return {"passed": arguments["sequences"] <= self._fits}


CASE = SimpleNamespace(usable_bytes=1)


def attempts(scripted: Scripted, monkeypatch: pytest.MonkeyPatch, clock: list[float], until: float) -> ceiling.Attempts:
    monkeypatch.setattr(ceiling, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    bench = SimpleNamespace(nursery=scripted, arguments={})
    return ceiling.Attempts(bench, CASE, {}, lambda _: None, until)  # type: ignore[arg-type]


def test_no_attempt_is_begun_that_there_is_no_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    passes = attempts(Scripted(clock, 40, 12), monkeypatch, clock, until=100)

    with pytest.raises(MeasureError, match=r"some 40 s, 10 passed, 14 failed.*longer --budget"):
        searched(12, passes, 0.01)
    assert clock[0] == 80


def test_an_attempt_that_the_system_ends_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, death = [0.0], ExperimentDied("SIGKILL")
    death.by_signal = True

    assert searched(12, attempts(Scripted(clock, 1, 11, death), monkeypatch, clock, 1e9), 0.01).passed == 11


@pytest.mark.parametrize("death", [ExperimentDied("status 1"), NurseryGone("took longer")])
def test_an_attempt_that_failed_or_took_too_long_says_nothing_of_the_memory(
    death: MeasureError, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    with pytest.raises(type(death), match=str(death)):
        searched(12, attempts(Scripted(clock, 1, 11, death), monkeypatch, clock, 1e9), 0.01)
