"""`kvquote-probe engine`: from a running engine to a row that was sent."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvquote_probe.cli import main
from kvquote_probe.cli.codes import Code
from kvquote_probe.spool import Spool
from tests.clients.probe.engine import fake_engine as troubles
from tests.clients.probe.engine.fake_engine import FakeEngine, Handler
from tests.clients.probe.engine.servers import VLLM_0_11, VLLM_0_24, served
from tests.clients.probe.fake_service import FakeService

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.usefixtures("environment")
Captured = pytest.CaptureFixture[str]


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


@pytest.mark.parametrize("token", ["sk-sec ret", "sk-sec\nX: 1", "sk-secключ"])
def test_a_token_that_is_none_is_said_and_not_repeated(
    engine: FakeEngine, token: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("KVQUOTE_ENGINE_TOKEN", token)

    assert main(["engine", engine.url]) == Code.NOTHING
    told = capsys.readouterr().err
    assert "KVQUOTE_ENGINE_TOKEN" in told
    assert "sk-sec" not in told
    assert engine.asked == []


def test_a_token_from_a_file_with_an_end_of_line_is_one(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVQUOTE_ENGINE_TOKEN", "sk-engine\n")

    assert main(["engine", engine.url]) == Code.DONE
    assert engine.tokens == {"Bearer sk-engine"}


@pytest.mark.parametrize("place", ["/nowhere/a.log", "/", "a\0b", "/dev/null"])
def test_a_log_that_is_none_is_said(place: str, capsys: Captured) -> None:
    assert main(["engine", "--log", place]) == Code.NOTHING
    assert capsys.readouterr().err.splitlines()[-1].startswith("engine: ")


def test_a_closed_standard_input_is_no_log() -> None:
    command = f"{sys.executable} -m kvquote_probe engine --log - <&-"
    named = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "src")}
    ran = subprocess.run(["sh", "-c", command], env=named, capture_output=True, text=True, check=False)

    assert ran.returncode == Code.NOTHING
    assert "Standard input is closed" in ran.stderr


def test_an_engine_that_is_none_is_said(service: FakeService, capsys: Captured) -> None:
    assert main(["engine", service.url]) == Code.NOTHING
    assert "is none of vllm" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--model", "--gpu", "--kv-dtype"])
def test_a_path_is_no_name_to_tell(engine: FakeEngine, capsys: Captured, option: str) -> None:
    assert main(["engine", engine.url, option, "/home/ada/x"]) == Code.NOTHING
    assert f"{option} is to be a published name" in capsys.readouterr().err


TROUBLES = {
    "500": troubles.status(500),
    "429": troubles.status(429),
    "a reset": troubles.reset,
    "half a reply": troubles.half_a_reply,
    "HTML": troubles.page,
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_an_engine_in_trouble_gives_a_sentence_a_status_and_no_row(
    engine: FakeEngine, folder: Path, capsys: Captured, trouble: Callable[[Handler], None]
) -> None:
    engine.trouble = trouble

    assert main(["engine", engine.url]) == Code.NOTHING

    assert f"engine: {engine.url}" in (told := capsys.readouterr().err) or f"answers at {engine.url}" in told
    with Spool(folder) as spool:
        assert spool.counts().waiting == 0


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
