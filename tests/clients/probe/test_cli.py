"""`kvquote-probe`: what it prints, keeps and sends, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvquote_probe.cli import main
from kvquote_probe.cli.codes import EXIT_CODES, Code
from kvquote_probe.cli.words import Words
from kvquote_probe.commands import Say, Share
from kvquote_probe.readings import Reading
from kvquote_probe.spool import Spool
from tests.clients.probe import drills
from tests.clients.probe.drills import command
from tests.clients.probe.engine.fake_engine import FakeEngine, fake_engine
from tests.clients.probe.engine.servers import VLLM_0_11, VLLM_0_24, served
from tests.clients.probe.fake_service import FakeService, fake_service, status

ROOT = Path(__file__).parents[3]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No service is named, and the usual spool is a folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("KVQUOTE_URL", "KVQUOTE_TOKEN", "KVQUOTE_ENGINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "kvquote"


@pytest.fixture
def service() -> Iterator[FakeService]:
    with fake_service() as service:
        yield service


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with fake_engine() as engine:
        engine.pages = served(VLLM_0_24)
        yield engine


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`offer(two=two)`: these measurements instead of those with torch, all of them in `all`."""

    def replace(options: tuple[str, ...] = (), **runs: drills.Drill) -> None:
        commands = {name: command(name, run, *options) for name, run in runs.items()}
        shares = [Share(name, 1 / len(runs)) for name in runs]
        monkeypatch.setattr("kvquote_probe.cli.known_words", lambda _words: Words(commands, shares))

    return replace


def kept(folder: Path) -> list[float]:
    with Spool(folder) as spool:
        return [json.loads(row.text)["values"]["bytes_per_second"] for row in spool.batch()]


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


def ended(words: list[str], number: signal.Signals, said: str) -> tuple[int, list[str]]:
    """Start the probe, send it a signal once it has said something, and see how it ends."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'clients/src'}"}
    command = [sys.executable, "-m", "tests.clients.probe.drills", *words]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if said in line:
                process.send_signal(number)
        return process.wait(20), lines


def runs(process: int) -> bool:
    """Whether a process is there and more than a status that nobody has asked for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_the_spool_whole_and_no_process_behind(
    folder: Path, number: signal.Signals, status: int
) -> None:
    found, lines = ended(["with_children"], number, "pids")

    pids = [int(pid) for line in lines if "pids" in line for pid in line.split()[1:]]
    assert found == status
    assert len(pids) == 3
    assert [pid for pid in pids if runs(pid)] == []
    assert kept(folder) == [7.0]


def test_a_signal_while_a_result_is_kept_waits_until_it_is(
    offer: Callable[..., None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Spool.add

    def slowly(spool: Spool, rows: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.01)
        add(spool, rows)  # type: ignore[arg-type]

    offer(two=drills.two)
    monkeypatch.setattr(Spool, "add", slowly)

    assert main(["two"]) == 143
    assert kept(folder) == [1.0]


def test_what_nohup_ignores_stays_ignored(offer: Callable[..., None]) -> None:
    seen: list[object] = []

    def looking(_args: Namespace, _say: Say) -> Iterator[Reading]:
        seen.append(signal.getsignal(signal.SIGHUP))
        yield drills.reading(1.0)

    offer(looking=looking)
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        main(["looking"])
    finally:
        signal.signal(signal.SIGHUP, former)

    assert seen == [signal.SIG_IGN]


def test_signals_are_handled_as_before_afterwards(offer: Callable[..., None]) -> None:
    offer(two=drills.two)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]

    main(["two"])

    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before


def test_an_engine_is_read_and_its_capacity_sent(engine: FakeEngine, service: FakeService, capsys: Captured) -> None:
    words = ["engine", engine.url, "--gpu", "NVIDIA L4", "--tensor-parallel", "2", "--url", service.url, "--json"]

    assert main(words) == Code.DONE

    (row,) = service.rows.values()
    assert json.loads(capsys.readouterr().out) == row
    assert row["values"] == VLLM_0_24.values
    assert row["gpu"] == {"name": "NVIDIA L4", "count": 2}
    assert row["setup"] == {**VLLM_0_24.setup, "tensor_parallel": 2}
    assert row["software"]["engine_version"] == "0.24.0"


def test_the_token_of_the_service_is_not_for_the_engine(
    engine: FakeEngine, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVQUOTE_TOKEN", "kvq_secret")
    monkeypatch.setenv("KVQUOTE_ENGINE_TOKEN", "sk-engine")

    main(["engine", engine.url, "--url", service.url])

    assert engine.tokens == {"Bearer sk-engine"}
    assert service.headers_seen[0]["Authorization"] == "Bearer kvq_secret"


def test_an_engine_that_is_none_is_said(service: FakeService, capsys: Captured) -> None:
    assert main(["engine", service.url]) == Code.NOTHING
    assert "is none of vllm" in capsys.readouterr().err


def test_a_path_is_no_model_to_tell(engine: FakeEngine, capsys: Captured) -> None:
    assert main(["engine", engine.url, "--model", "/home/ada/x"]) == Code.NOTHING
    assert "--model is to be a published name" in capsys.readouterr().err


def test_blocks_are_counted_where_a_person_says_that_caches_are_alike(engine: FakeEngine) -> None:
    engine.pages = served(VLLM_0_11)

    assert main(["engine", engine.url]) == Code.NOTHING
    assert main(["engine", engine.url, "--uniform-cache"]) == Code.DONE


def test_neither_reading_engines_nor_uploading_loads_torch(engine: FakeEngine, service: FakeService) -> None:
    script = (
        "import sys\nsys.modules['torch'] = None\nfrom kvquote_probe.cli import main\n"
        f"codes = [main(words.split()) for words in ('engine {engine.url}', 'upload --url {service.url}', 'status')]\n"
        "print(codes, [name for name in sys.modules if name.startswith('kvquote_probe.measure')])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/src")}

    told = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)

    assert told.stdout.splitlines()[-1] == "[0, 0, 0] []"


def test_exit_statuses_are_all_told() -> None:
    told = [line.split()[0] for line in EXIT_CODES.splitlines() if line.startswith("  ")]

    assert told == [*(str(int(code)) for code in Code), "130,"]


def test_help_tells_exit_statuses_and_every_command(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    told = capsys.readouterr().out
    assert EXIT_CODES in told
    assert [name for name in ("device", "kv", "engine", "upload", "status") if f"    {name}" not in told] == []
