"""What a signal leaves: a whole spool and no process."""

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
from kvquote_probe.commands import Say
from kvquote_probe.readings import Reading
from kvquote_probe.spool import Spool
from tests.clients.probe import drills
from tests.clients.probe.drills import kept

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("environment")


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


def test_a_process_that_stood_there_before_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        try:
            main(["engine", "--log", "/dev/null"])

            assert other.poll() is None
        finally:
            other.kill()
