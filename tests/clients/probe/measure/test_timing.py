"""Medians, drift and order of timings, on a device whose clock is planted."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.device import Cpu
from kvquote_probe.measure.smi import Card
from kvquote_probe.measure.timing import Effort, Timing, Watch, interleaved

QUICK = Effort(warm_up_seconds=0.0, samples=9, seconds=60.0)


class Planted(Cpu):
    """A device on which each work takes what a table says."""

    def __init__(self, seconds: dict[str, float]) -> None:
        super().__init__()
        self.runs: list[str] = []
        self._seconds = seconds

    def work(self, name: str) -> Callable[[], None]:
        return lambda: self.runs.append(name)

    def seconds(self, work: Callable[[], Any]) -> float:
        begun = len(self.runs)
        work()
        return sum(self._seconds[name] for name in self.runs[begun:])


def test_each_work_gets_its_own_median() -> None:
    device = Planted({"slow": 0.5, "quick": 0.001})

    found = interleaved(device, {name: device.work(name) for name in ("slow", "quick")}, QUICK)

    assert {name: each.seconds for name, each in found.items()} == pytest.approx({"slow": 0.5, "quick": 0.001})
    assert [len(each.samples) for each in found.values()] == [9, 9]


def test_a_work_shorter_than_its_launch_is_repeated_and_told_for_one_run() -> None:
    device = Planted({"tiny": 2e-6})

    found = interleaved(device, {"tiny": device.work("tiny")}, QUICK)

    assert found["tiny"].seconds == pytest.approx(2e-6)
    assert len(device.runs) >= 9 * 100


def test_every_round_runs_each_once_and_orders_differ() -> None:
    device = Planted({"a": 1.0, "b": 1.0, "c": 1.0})
    interleaved(device, {name: device.work(name) for name in "abc"}, QUICK)

    rounds = ["".join(device.runs[-27:][at : at + 3]) for at in range(0, 27, 3)]
    assert all(Counter(order) == Counter("abc") for order in rounds)
    assert len(set(rounds)) > 1


def test_when_time_runs_out_three_samples_of_each_are_taken() -> None:
    device = Planted({"a": 1.0})

    found = interleaved(device, {"a": device.work("a")}, Effort(warm_up_seconds=0.0, samples=100, seconds=0.0))

    assert len(found["a"].samples) == 3


def test_drift_is_the_later_half_against_the_earlier() -> None:
    assert Timing((1.0, 1.0, 1.1, 1.1)).drift == pytest.approx(0.1)


def test_one_slow_sample_does_not_move_the_median() -> None:
    assert Timing((1.0, 1.0, 1.0, 9.0, 1.0)).seconds == 1.0


def test_a_card_that_slows_itself_down_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Cpu()
    watch = Watch(device, shared=False)
    monkeypatch.setattr(device, "card", lambda: Card(slowed=True))

    with pytest.raises(MeasureError, match="slows itself down"):
        watch.end()


def test_clocks_are_told_as_they_were_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Cpu()
    cards = iter([Card(clocks_mhz={"sm": 210}), Card(clocks_mhz={"sm": 1980}, temperature_celsius=61)])
    monkeypatch.setattr(device, "card", lambda: next(cards))

    told = Watch(device, shared=False).end()

    assert told == {"clocks_mhz": {"before": {"sm": 210}, "after": {"sm": 1980}}, "temperature_celsius": 61}
