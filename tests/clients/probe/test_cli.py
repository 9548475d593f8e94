"""`kvquote-probe`: what it prints, keeps and sends, and how it ends."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvquote_probe.cli import main
from kvquote_probe.cli.codes import EXIT_CODES, Code
from kvquote_probe.cli.words import Words, _setting
from kvquote_probe.commands import Say, Share
from kvquote_probe.readings import Reading
from kvquote_probe.spool import Spool
from tests.clients.probe import drills
from tests.clients.probe.drills import command, kept
from tests.clients.probe.fake_service import FakeService, status

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("environment")
Captured = pytest.CaptureFixture[str]


def test_it_measures_keeps_and_tells(offer: Callable[..., None], folder: Path, capsys: Captured) -> None:
    offer(two=drills.two)

    assert main(["two"]) == Code.DONE

    told = capsys.readouterr()
    assert kept(folder) == [1.0, 2.0]
    assert told.out.splitlines()[0] == "memory_bandwidth on cpu"
    assert told.err.index("plan: two") < told.err.index("half-way")


def test_json_is_the_row_as_it_is_kept(offer: Callable[..., None], folder: Path, capsys: Captured) -> None:
    offer(two=drills.two)

    main(["two", "--json"])

    with Spool(folder) as spool:
        assert capsys.readouterr().out.splitlines() == [row.text for row in spool.batch()]


def test_a_dry_run_prints_the_plan_and_touches_nothing(
    offer: Callable[..., None], folder: Path, capsys: Captured
) -> None:
    offer(two=drills.two)

    assert main(["two", "--dry-run", "--url", "http://x"]) == Code.DONE

    assert capsys.readouterr().out.splitlines() == [
        "plan: two",
        "  do two",
        f"plan: keep each result in {folder}, send it to http://x",
    ]
    assert not folder.exists()


def test_results_are_sent_once_they_are_kept(offer: Callable[..., None], folder: Path, service: FakeService) -> None:
    offer(two=drills.two)

    assert main(["two", "--url", service.url]) == Code.DONE

    assert len(service.rows) == 2
    assert kept(folder) == []


def test_no_upload_keeps_them(offer: Callable[..., None], folder: Path, service: FakeService) -> None:
    offer(two=drills.two)

    assert main(["two", "--url", service.url, "--no-upload"]) == Code.DONE

    assert service.bodies == []
    assert kept(folder) == [1.0, 2.0]


ENDS = [
    (drills.failing, Code.PARTLY, [3.0]),
    (drills.refusing, Code.NOTHING, []),
    (drills.nothing, Code.NOTHING, []),
    (drills.no_number, Code.PARTLY, [4.0]),
]


@pytest.mark.parametrize("run, code, rows", ENDS, ids=[run.__name__ for run, _, _ in ENDS])
def test_it_ends_as_the_measurement_did(
    offer: Callable[..., None], folder: Path, run: drills.Drill, code: Code, rows: list[float]
) -> None:
    offer(drill=run)

    assert main(["drill"]) == code
    assert kept(folder) == rows


def test_a_service_that_is_away_is_told_and_nothing_is_lost(
    offer: Callable[..., None], folder: Path, capsys: Captured
) -> None:
    offer(two=drills.two)

    assert main(["two", "--url", "http://127.0.0.1:9", "--patience", "0"]) == Code.LATER

    assert kept(folder) == [1.0, 2.0]
    assert "2 still wait" in capsys.readouterr().err


@pytest.mark.parametrize("code", [401, 403])
def test_a_token_that_is_refused_needs_a_person(
    offer: Callable[..., None], folder: Path, service: FakeService, code: int
) -> None:
    offer(two=drills.two)
    service.faults = [status(code)]

    assert main(["two", "--url", service.url]) == Code.REFUSED
    assert kept(folder) == [1.0, 2.0]


def test_rows_that_are_refused_are_shown_and_can_be_sent_again(
    offer: Callable[..., None], service: FakeService, capsys: Captured
) -> None:
    offer(two=drills.two)
    verdicts = {1.0: ("accepted", None), 2.0: ("rejected", "/values: no")}
    service.judge = lambda row: verdicts[row["values"]["bytes_per_second"]]

    assert main(["two", "--url", service.url]) == Code.REFUSED

    capsys.readouterr()
    assert main(["status"]) == Code.DONE
    assert "/values: no" in capsys.readouterr().out
    main(["status", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["answered"] == {"accepted": 1, "rejected": 1}
    assert document["aside"][0]["row"]["values"]["bytes_per_second"] == 2
    service.judge = lambda _row: ("accepted", None)
    assert main(["upload", "--again", "--url", service.url, "--json"]) == Code.DONE
    assert json.loads(capsys.readouterr().out)["counts"] == {"accepted": 1}


def test_a_second_uploader_is_told(folder: Path, service: FakeService, capsys: Captured) -> None:
    with Spool(folder) as spool, spool.uploading():
        assert main(["upload", "--url", service.url]) == Code.SPOOL

    assert "Another process" in capsys.readouterr().err


def test_measuring_beside_an_uploader_is_no_fault(
    offer: Callable[..., None], folder: Path, service: FakeService
) -> None:
    offer(two=drills.two)

    with Spool(folder) as spool, spool.uploading():
        assert main(["two", "--url", service.url]) == Code.LATER

    assert kept(folder) == [1.0, 2.0]


def test_an_upload_needs_a_service(capsys: Captured) -> None:
    assert main(["upload"]) == Code.USAGE
    assert "KVQUOTE_URL" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["bogus"], ["two", "--bogus"], ["two", "--patience", "nan"], ["two", "extra"]])
def test_what_makes_no_sense_is_said(offer: Callable[..., None], words: list[str]) -> None:
    offer(two=drills.two)

    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == Code.USAGE


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--url", "localhost:8000"), id="no-scheme"),
        pytest.param(("--url", ""), id="no-address"),
        pytest.param(("--url", "http://a", "--token", "sec\nret"), id="no-token"),
    ],
)
def test_a_service_that_cannot_be_asked_is_said_before_anything_is_measured(
    offer: Callable[..., None], folder: Path, words: tuple[str, ...], capsys: Captured
) -> None:
    offer(two=drills.two)

    assert main(["two", *words]) == Code.USAGE
    told = capsys.readouterr()
    assert "half-way" not in told.err
    assert "sec" not in told.err
    assert not folder.exists()


def test_variables_may_end_as_files_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVQUOTE_TOKEN", "kvq_x\n")
    assert _setting("KVQUOTE_TOKEN") == "kvq_x"
    monkeypatch.setenv("KVQUOTE_TOKEN", " \n")
    assert _setting("KVQUOTE_TOKEN") is None


@pytest.mark.parametrize("word", ["0", "-1", "1.5", "nan", "1e9", "", "²", "9" * 16])
@pytest.mark.parametrize(
    "option",
    [
        *("bandwidth --samples", "bandwidth --working-set-bytes", "bandwidth --page-bytes", "bandwidth --limit-bytes"),
        *("kv --context", "kv --sequences", "ceiling --context", "allreduce --ranks", "allreduce --sizes"),
        *("matmul --shapes", "decode --lengths", "decode --batch-sizes", "prefill --layers"),
    ],
)
def test_what_is_no_count_is_said_at_once(option: str, word: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*option.split(), word])

    assert ended.value.code == Code.USAGE


@pytest.mark.parametrize(
    "words",
    [
        *("bandwidth --warm-up nan", "bandwidth --seconds -1", "matmul --seconds 1e400", "decode --most-residual -1"),
        *("matmul --shapes 1x2", "matmul --shapes 1x2x3x4", "matmul --dtypes fp7", "device --fraction 2"),
    ],
)
def test_what_is_no_measure_is_said_at_once(words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())

    assert ended.value.code == Code.USAGE


def test_a_spool_without_a_name_is_no_spool_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit) as ended:
        main(["status", "--spool", ""])
    assert ended.value.code == Code.USAGE
    assert list(tmp_path.iterdir()) == []


def test_the_share_of_the_memory_has_both_names(capsys: Captured) -> None:
    for name in ("--fraction", "--memory-fraction"):
        assert main(["kv", "--dry-run", name, "0.5"]) == Code.DONE
        assert "at most 50% of the memory" in capsys.readouterr().out


def test_a_fault_of_its_own_is_one_line(
    offer: Callable[..., None], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    offer(broken=drills.broken)

    assert main(["broken"]) == Code.FAULT
    assert capsys.readouterr().err.splitlines()[-1].startswith("a fault of kvquote-probe itself")
    assert kept(folder) == [6.0]
    monkeypatch.setenv("KVQUOTE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["broken"])


@pytest.mark.parametrize("redirect, code, said", [(">&-", 0, ""), ("2>&-", 0, ""), (">/dev/full", 6, "No space left")])
def test_a_place_that_takes_no_output_is_no_traceback(redirect: str, code: int, said: str, folder: Path) -> None:
    command = f"{sys.executable} -m kvquote_probe status --spool {folder} {redirect}"
    named = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "src")}
    ran = subprocess.run(["sh", "-c", command], env=named, capture_output=True, text=True, check=False)

    assert ran.returncode == code
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_spool_that_cannot_be_used_is_said_before_anything_is_measured(
    offer: Callable[..., None], tmp_path: Path, capsys: Captured
) -> None:
    offer(two=drills.two)
    (tmp_path / "file").touch()

    assert main(["two", "--spool", str(tmp_path / "file")]) == Code.SPOOL
    assert "half-way" not in capsys.readouterr().err


def test_a_result_that_cannot_be_kept_is_printed(
    offer: Callable[..., None], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kvquote_probe.spool_file import SpoolFullError

    def full(*_: object) -> None:
        raise SpoolFullError("The disk is full.")

    offer(two=drills.two)
    monkeypatch.setattr(Spool, "add", full)

    assert main(["two"]) == Code.SPOOL

    told = capsys.readouterr()
    assert json.loads(told.out)["values"]["bytes_per_second"] == 1.0
    assert "full" in told.err


def test_a_damaged_spool_is_told_of(offer: Callable[..., None], folder: Path, capsys: Captured) -> None:
    offer(two=drills.two)
    main(["two"])
    (folder / "results.sqlite").write_bytes(b"nonsense" * 1000)

    assert main(["two"]) == Code.DONE

    assert "was damaged" in capsys.readouterr().err
    assert kept(folder) == [1.0, 2.0]


def test_a_budget_ends_a_measurement_and_what_was_measured_is_kept(
    offer: Callable[..., None], folder: Path, capsys: Captured
) -> None:
    offer(slow=drills.slow)

    assert main(["slow", "--budget", "0.3"]) == Code.PARTLY

    assert kept(folder) == [5.0]
    assert "are over" in capsys.readouterr().err


def test_all_runs_its_set_in_order_and_goes_on_after_a_failure(
    offer: Callable[..., None], folder: Path, capsys: Captured
) -> None:
    offer(refusing=drills.refusing, two=drills.two, failing=drills.failing)

    assert main(["all", "--budget", "300"]) == Code.PARTLY

    told = capsys.readouterr().err
    assert kept(folder) == [1.0, 2.0, 3.0]
    assert [line for line in told.splitlines() if line.startswith("plan: ")][:3] == [
        "plan: refusing, at most 100 s",
        "plan: two, at most 100 s",
        "plan: failing, at most 100 s",
    ]


def test_all_hands_each_option_to_those_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, object, float]] = []

    def noting(args: Namespace, _say: Say) -> Iterator[Reading]:
        seen.append((args.model, getattr(args, "device", None), args.budget))
        yield drills.reading(1.0)

    commands = {"a": command("a", noting, "model"), "b": command("b", noting, "model", "device")}
    shares = [Share("b", 0.75), Share("a", 0.25)]
    monkeypatch.setattr("kvquote_probe.cli.known_words", lambda _words: Words(commands, shares))

    assert main(["all", "--device", "cpu", "--model", "llama", "--budget", "8"]) == Code.DONE

    assert seen[0] == ("llama", "cpu", 6.0)
    assert seen[1][:2] == ("llama", None)
    # What the first one left of its time is the second one's.
    assert 7.0 < seen[1][2] < 8.0
    with pytest.raises(SystemExit):
        main(["all", "--bogus", "1"])


def test_the_plan_of_all_is_that_of_its_measurements(folder: Path, capsys: Captured) -> None:
    from kvquote_probe.measure.commands import ALL, COMMANDS

    assert main(["all", "--dry-run", "--device", "cpu", "--budget", "1000"]) == Code.DONE

    planned = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("plan: ")]
    assert planned == [*(f"{share.name}," for share in ALL), "keep"]
    assert {share.name for share in ALL} <= COMMANDS.keys()
    assert sum(share.share for share in ALL) <= 1.0001
    assert not folder.exists()


def test_a_plan_says_that_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("kvquote_probe.cli.running.auto_means", lambda: "there is no GPU's driver here")

    main(["all", "--dry-run"])
    assert capsys.readouterr().out.splitlines()[0] == "plan: there is no GPU's driver here"
    main(["all", "--dry-run", "--device", "cpu"])
    assert "driver here" not in capsys.readouterr().out


def test_exit_statuses_are_all_told() -> None:
    told = [line.split()[0] for line in EXIT_CODES.splitlines() if line.startswith("  ")]

    assert told == [*(str(int(code)) for code in Code), "130,"]


def test_help_tells_exit_statuses_and_every_command(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    told = capsys.readouterr().out
    assert EXIT_CODES in told
    assert [name for name in ("device", "kv", "engine", "upload", "status") if f"    {name}" not in told] == []
