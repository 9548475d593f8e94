"""The application as a server runs it: quotes at once, the rest when it is asked for, and no other answers for that."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from werkzeug.test import Client, TestResponse

from service.app import StagedApp
from service.settings import Settings
from tests.api.asking import QUESTION

if TYPE_CHECKING:
    from flask import Flask

    from tests.databases import Databases

ORIGIN = "https://grafana.example"
ANSWERED_AT_ONCE = ["/livez", "/readyz", "/fit?model=llama-2-7b&gpu=a10", "/traffic?model=llama-2-7b&gpu=a10"]
ONLY_LATER = {
    *("apispec", "flask_smorest", "webargs", "yaml", "sqlalchemy.dialects.postgresql", "psycopg", "alembic"),
    *("service.resources", "service.api.models", "service.api.measurements", "service.domain.accuracy"),
    *("service.domain.commands.asking", "service.domain.logs.reader", "service.domain.engines.vllm"),
    *("service.storage.learning", "service.domain.learning"),
}
COMMAND = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192"
# Every engine, a command, a log, a mistyped name, and the pages beside them.
ALL_KINDS = f"""
import json, os, sys
from werkzeug.test import Client
from service.preloading import import_rest
from service.wsgi import app

app.load()
from service.api.logs import EXAMPLES
import_rest()
app.services.keeper.refresh()
before = set(sys.modules)
client = Client(app)
llama = {{"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 4096}}
for engine in ("none", "vllm", "sglang", "tensorrt-llm", "llama.cpp"):
    for path in ("/fit", "/traffic"):
        assert client.post(path, json=llama | {{"engine": engine}}).status_code == 200, engine
assert client.post("/fit", json={{"command": {COMMAND!r}, "gpu": "h100-sxm-80gb"}}).status_code == 200
assert client.post("/logs", json=EXAMPLES["vLLM on an H100"]["value"]).status_code == 200
assert client.get("/fit?model=lama&gpu=a10").status_code == 422
for path in ("/models", "/gpus/a10", "/calibrations", "/accuracy", "/measurements", "/probes", "/metrics", "/docs"):
    assert client.get(path).status_code == 200, path
late = [name for name in set(sys.modules) - before if name.startswith("service.")]
print(json.dumps(sorted(late + [name for name in sys.modules if name.startswith("sqlalchemy.orm")])))
"""


@pytest.fixture(scope="module")
def loaded(sqlite: "Databases") -> Iterator[str]:
    with sqlite.loaded() as url:
        yield url


def staged_app(url: str, **settings: Any) -> StagedApp:  # noqa: ANN401 - of any type
    return StagedApp(Settings(database_url=url, log_level="critical", **settings))


@pytest.fixture
def staged(loaded: str) -> Iterator[StagedApp]:
    made = staged_app(loaded)
    yield made
    made.services.keeper.stop()  # type: ignore[attr-defined]  # it is a SnapshotKeeper
    made.services.engine.dispose()


def shown(reply: TestResponse) -> tuple[int, list[tuple[str, str]], bytes]:
    return reply.status_code, sorted(reply.headers), reply.data


def test_quotes_and_health_are_answered_without_the_rest(staged: StagedApp) -> None:
    client = Client(staged)

    assert [client.get(path).status_code for path in ANSWERED_AT_ONCE] == [200] * len(ANSWERED_AT_ONCE)
    assert client.post("/fit", json=QUESTION).status_code == 200
    assert staged._rest is None


@pytest.mark.parametrize(
    "method, path",
    [
        *(("GET", path) for path in ANSWERED_AT_ONCE),
        ("PUT", "/fit"),
        ("OPTIONS", "/traffic"),
        ("HEAD", "/fit?model=llama-2-7b&gpu=a10"),
        ("GET", "/fit?modle=x"),
        ("GET", "/fit/"),
        ("GET", "//fit"),
        ("GET", "/nothing"),
        ("GET", "/models?limit=3"),
        ("GET", "/openapi.json"),
        ("GET", "/"),
    ],
)
def test_it_answers_as_the_whole_application(staged: StagedApp, app: "Flask", method: str, path: str) -> None:
    answers = [Client(each).open(path, method=method, headers={"X-Request-ID": "mine"}) for each in (staged, app)]

    assert shown(answers[0]) == shown(answers[1])


def test_what_is_closed_is_closed_from_the_start(loaded: str) -> None:
    client = Client(staged_app(loaded, open_reads=False))

    assert [client.get(path).status_code for path in (ANSWERED_AT_ONCE[2], "/models")] == [401, 401]


def test_origins_are_allowed_from_the_start(loaded: str) -> None:
    client = Client(staged_app(loaded, cors_origins=(ORIGIN,)))

    for path in (ANSWERED_AT_ONCE[2], "/models"):
        assert client.get(path, headers={"Origin": ORIGIN}).headers["Access-Control-Allow-Origin"] == ORIGIN


def test_requests_that_come_together_load_the_rest_once(staged: StagedApp) -> None:
    with ThreadPoolExecutor(8) as pool:
        loaded = set(pool.map(lambda _: staged.load(), range(8)))

    assert len(loaded) == 1


def test_starting_imports_nothing_that_a_quote_does_not_need(loaded: str) -> None:
    modules = printed("import json, sys, service.wsgi; print(json.dumps(sorted(sys.modules)))", loaded)

    assert modules & ONLY_LATER == set()


def test_what_is_loaded_before_a_fork_is_all_that_questions_need(loaded: str) -> None:
    """And no object mapper among it: a tenth of a start, and of a worker's memory."""
    assert printed(ALL_KINDS, loaded) == set()


def printed(code: str, database_url: str) -> set[str]:
    variables = {**os.environ, "DATABASE_URL": database_url, "KVQUOTE_LOG_LEVEL": "critical"}
    return set(json.loads(subprocess.check_output([sys.executable, "-c", code], env=variables, text=True)))
