"""The probe and the real service: rows that it sends are taken, and models that it asks about are known."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvquote_client import Transport
from kvquote_probe.cli import main
from kvquote_probe.cli.codes import Code
from kvquote_probe.engine.uniform import is_uniform
from kvquote_probe.spool import Spool
from service.storage.tokens import Scope
from tests.api.desk import bearer
from tests.clients.probe.engine.fake_engine import FakeEngine, fake_engine
from tests.clients.probe.engine.servers import VLLM_0_11, Release, served
from tests.clients.serving import served as serving
from tests.conftest import wired_app
from tests.databases import Databases


@pytest.fixture(scope="module")
def service(sqlite: Databases) -> Iterator[tuple[str, str]]:
    """Its address and a token to upload with."""
    with sqlite.loaded() as url, wired_app(url) as app, serving(app) as address:
        yield address, bearer(app, Scope.MEASUREMENTS_WRITE)["Authorization"].removeprefix("Bearer ")


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with fake_engine() as engine:
        yield engine


def of_model(model: str) -> Release:
    """vLLM 0.11, which tells blocks and not tokens, with another model."""
    pages = dict(VLLM_0_11.pages)
    card = {**pages["/v1/models"]["data"][0], "root": model}
    return VLLM_0_11._replace(pages={**pages, "/v1/models": {"data": [card]}})


def listed(address: str) -> list[dict[str, Any]]:
    with Transport(address) as transport:
        items: list[dict[str, Any]] = transport.request("GET", "/measurements").body["items"]
        return items


@pytest.mark.parametrize(
    "model, uniform",
    [
        ("meta-llama/Llama-3.1-8B-Instruct", True),
        ("deepseek-v2-lite", True),
        ("google/gemma-3-27b-it", False),
        ("qwen3-next-80b-a3b-instruct", False),
        ("nobody/knows-this", None),
    ],
)
def test_the_service_tells_whether_a_models_layers_cache_alike(
    service: tuple[str, str], model: str, uniform: bool | None
) -> None:
    with Transport(service[0]) as transport:
        assert is_uniform(transport, model) is uniform


def test_an_engines_capacity_is_taken_and_found_again(
    service: tuple[str, str], engine: FakeEngine, tmp_path: Path
) -> None:
    address, token = service
    engine.pages = served(of_model("meta-llama/Llama-3.1-8B-Instruct"))
    words = ["engine", engine.url, "--gpu", "NVIDIA H100 80GB HBM3", "--spool", str(tmp_path)]

    assert main([*words, "--url", address, "--token", token]) == Code.DONE

    with Spool(tmp_path) as spool:
        assert spool.counts() == (0, 0, {"accepted": 1})
        (row,) = [row for row in listed(address) if row["probe_id"] == spool.probe_id]
    assert row["values"]["kv_capacity_tokens"] == VLLM_0_11.values["kv_capacity_tokens"]


def test_blocks_of_a_model_with_windows_are_not_reported_as_tokens(
    service: tuple[str, str], engine: FakeEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.pages = served(of_model("google/gemma-3-27b-it"))

    assert main(["engine", engine.url, "--spool", str(tmp_path), "--url", service[0]]) == Code.NOTHING
    assert "--uniform-cache" in capsys.readouterr().err


def test_the_same_rows_sent_again_are_duplicates(service: tuple[str, str], engine: FakeEngine, tmp_path: Path) -> None:
    address, token = service
    engine.pages = served(of_model("meta-llama/Llama-3.1-8B-Instruct"))
    main(["engine", engine.url, "--spool", str(tmp_path), "--no-upload", "--uniform-cache"])
    with Spool(tmp_path) as spool:
        row = json.loads(spool.batch()[0].text)
        spool.add([row])

    assert main(["upload", "--spool", str(tmp_path), "--url", address, "--token", token]) == Code.DONE

    with Spool(tmp_path) as spool:
        assert spool.counts().answered == {"duplicate": 1, "unmatched": 1}


def test_a_row_that_the_service_refuses_is_set_aside_with_its_reason(
    service: tuple[str, str], engine: FakeEngine, tmp_path: Path
) -> None:
    address, token = service
    engine.pages = served(of_model("meta-llama/Llama-3.1-8B-Instruct"))
    main(["engine", engine.url, "--spool", str(tmp_path), "--no-upload", "--uniform-cache"])
    with Spool(tmp_path) as spool:
        row = json.loads(spool.batch()[0].text)
        spool.add([{**row, "id": row["probe_id"], "hostname": "node-17"}])

    assert main(["upload", "--spool", str(tmp_path), "--url", address, "--token", token]) == Code.REFUSED

    with Spool(tmp_path) as spool:
        (aside,) = spool.aside()
        assert (aside.id, aside.verdict) == (row["probe_id"], "rejected")
        assert "nothing that names a machine is kept" in str(aside.detail)


def test_a_wrong_token_keeps_the_rows(service: tuple[str, str], engine: FakeEngine, tmp_path: Path) -> None:
    engine.pages = served(of_model("meta-llama/Llama-3.1-8B-Instruct"))
    words = ["engine", engine.url, "--uniform-cache", "--spool", str(tmp_path), "--url", service[0]]

    assert main([*words, "--token", "kvq_no"]) == Code.REFUSED

    with Spool(tmp_path) as spool:
        assert spool.counts().waiting == 1
