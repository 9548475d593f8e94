"""The command line on a spool of the test's own, with a service and an engine to speak to."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvquote_probe.cli.words import Words
from kvquote_probe.commands import Share
from tests.clients.probe import drills
from tests.clients.probe.drills import command
from tests.clients.probe.engine.fake_engine import FakeEngine, fake_engine
from tests.clients.probe.engine.servers import VLLM_0_24, served
from tests.clients.probe.fake_service import FakeService, fake_service


@pytest.fixture
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
