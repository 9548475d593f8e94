"""Experiments in processes of their own: their results, their deaths, and that none outlives the probe."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.nursery import ExperimentDied, Nursery, NurseryGone

DRILLS = "tests.clients.probe.measure.drills:"


def silent(_: str) -> None:
    """Says nothing."""


def is_gone(process: int, seconds: float = 10.0) -> bool:
    """Whether it ends in that time; one that nobody has collected yet has ended too."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_each_experiment_is_a_process_of_its_own(nursery: Nursery) -> None:
    processes = [nursery.run(f"{DRILLS}tell", {}, silent)["process"] for _ in range(2)]

    assert len({*processes, os.getpid()}) == 3
    assert all(is_gone(process) for process in processes)


def test_what_an_experiment_says_arrives_before_its_result(nursery: Nursery, said: list[str]) -> None:
    nursery.run(f"{DRILLS}tell", {}, said.append)

    assert said == ["begun"]


def test_experiments_together_answer_in_the_order_of_their_arguments(nursery: Nursery) -> None:
    found = nursery.run_together(f"{DRILLS}tell", [{"number": 1}, {"number": 2}, {"number": 3}], silent)

    assert [each["number"] for each in found] == [1, 2, 3]


def test_an_answer_may_be_longer_than_a_pipe_holds(nursery: Nursery) -> None:
    answers = nursery.run_together(f"{DRILLS}long_answer", [{"characters": 300_000}] * 2, silent)

    assert [len(answer) for answer in answers] == [300_000, 300_000]


def test_a_refusal_arrives_in_its_own_words(nursery: Nursery) -> None:
    with pytest.raises(MeasureError, match=r"^Give it another card\.$"):
        nursery.run(f"{DRILLS}refuse", {}, silent)


@pytest.mark.parametrize("drill, words", [("die", "SIGKILL"), ("fail", "status 1")])
def test_a_death_is_told_apart_from_a_refusal_and_the_next_experiment_runs(
    nursery: Nursery, drill: str, words: str
) -> None:
    with pytest.raises(ExperimentDied, match=words):
        nursery.run(f"{DRILLS}{drill}", {}, silent)

    assert nursery.run(f"{DRILLS}tell", {"number": 4}, silent)["number"] == 4


def test_a_python_without_torch_is_told_in_one_sentence() -> None:
    with (
        Nursery(load=("torch_that_nobody_has",)) as nursery,
        pytest.raises(MeasureError, match="cannot load torch_that"),
    ):
        nursery.run(f"{DRILLS}tell", {}, silent)


def test_modules_of_the_folder_it_is_started_in_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with Nursery(load=()) as nursery:
        assert nursery.run(f"{DRILLS}tell", {"number": 5}, silent)["number"] == 5


@pytest.fixture
def lingering() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A probe in the middle of an experiment, and the experiment's process."""
    command = [sys.executable, "-m", "tests.clients.probe.measure.lingering"]
    path = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as probe:
        assert probe.stdout is not None
        yield probe, int(probe.stdout.readline())
        probe.kill()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_no_experiment_outlives_the_probe(lingering: tuple[subprocess.Popen[str], int], how: signal.Signals) -> None:
    probe, experiment = lingering

    probe.send_signal(how)

    assert is_gone(experiment)
    assert probe.wait(10) != 0


def test_an_experiment_that_takes_too_long_is_ended(said: list[str]) -> None:
    with Nursery(load=()) as nursery, pytest.raises(NurseryGone, match="longer"):
        nursery.run(f"{DRILLS}linger", {}, said.append, timeout_seconds=1.0)

    assert is_gone(int(said[0]))
