"""`--local`: the service in the command's own process, on an embedded database."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from kvquote_client import Client, NotFound, Unreachable, local
from kvquote_client.cli import main
from kvquote_client.local import local_client
from tests.databases import Databases


@pytest.fixture(scope="module")
def database(sqlite: Databases) -> Iterator[str]:
    """An SQLite file with the catalog."""
    with sqlite.loaded() as url:
        yield str(make_url(url).database)


@pytest.fixture(scope="module")
def inside(database: str) -> Iterator[Client]:
    with local_client(database) as client:
        yield client


def test_it_answers_as_the_service_over_a_network_does(inside: Client, kvquote: Client) -> None:
    question = {"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "context_tokens": 4096}

    assert inside.fit(**question).raw == kvquote.fit(**question).raw  # type: ignore[arg-type]
    assert inside.models.get("meta-llama/Llama-2-7b-hf").id == "llama-2-7b"
    assert [gpu.id for gpu in inside.gpus.list(limit=7)] == [gpu.id for gpu in kvquote.gpus.list()]


def test_it_refuses_as_the_service_does(inside: Client) -> None:
    with pytest.raises(NotFound) as caught:
        inside.gpus.get("a/b ü")
    assert caught.value.request_id


def test_the_command_needs_no_network(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: object) -> None:
        raise AssertionError("asked the network")

    monkeypatch.setattr("socket.socket.connect", nobody)
    words = ["fit", "llama-2-7b", "a10", "--json", "--local", "--database", database]

    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["max_sequences"] == 2


def test_a_database_is_made_once_for_a_catalog(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def fill(url: str) -> None:
        made.append(url)
        shutil.copy(database, str(make_url(url).database))

    monkeypatch.setattr(local, "_fill", fill)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        with local_client() as client:
            assert client.fit(model="llama-2-7b", gpu="a10").max_sequences == 2

    assert len(made) == 1
    assert len(list((tmp_path / "kvquote").glob("local-*.db"))) == 1


def test_a_database_that_could_not_be_filled_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(url: str) -> None:
        Path(str(make_url(url).database)).touch()
        raise OSError("disk full")

    monkeypatch.setattr(local, "_fill", fill)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(Unreachable, match="disk full"):
        local_client()
    assert list((tmp_path / "kvquote").iterdir()) == []


def test_old_databases_are_forgotten(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / f"local-{number}.db").touch()
        os.utime(tmp_path / f"local-{number}.db", (number, number))
        (tmp_path / f"local-{number}.db-wal").touch()
    local._forget_all_but(2, tmp_path)

    assert sorted(path.name for path in tmp_path.glob("local-*.db")) == ["local-4.db", "local-5.db"]
    assert not (tmp_path / "local-0.db-wal").exists()


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.db"
    wrong.write_text("this is no database, though it is long enough to look like one\n" * 100)

    assert main(["gpus", "--local", "--database", str(wrong)]) == 4
    assert "not a database" in capsys.readouterr().err


def test_without_the_service_package_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What Python does for a module that is not there.
    monkeypatch.setitem(sys.modules, "service.app", None)

    assert main(["gpus", "--local"]) == 4
    assert "pip install" in capsys.readouterr().err
