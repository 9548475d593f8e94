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

from service.api.logs import EXAMPLES
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
    *("service.api.schemas.fit", "service.api.schemas.traffic", "service.api.schemas.quote_parts"),
    *("service.domain.commands.asking", "service.domain.logs.reader", "service.domain.engines.vllm"),
    *("service.storage.learning", "service.domain.learning", "service.domain.traffic_quote", "statistics"),
    *(f"service.domain.cache.{kind}" for kind in ("chunked", "cross", "indexer", "latent", "recurrent")),
}
COMMAND = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192"
STARTED = """
import json, sys
from werkzeug.test import Client
from service.wsgi import app

app.services.keeper.refresh()
client = Client(app)
def ask(path, asked=None):
    return client.get(path).status_code if asked is None else client.post(path, json=asked).status_code
"""
LOADED_AHEAD = f"""
{STARTED}
from service.preloading import import_rest

app.load()
import_rest()
before = set(sys.modules)
"""
LLAMA = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 4096}
# Every engine, a command, a log, a mistyped name, and the pages beside them.
ALL_KINDS: list[tuple[str, object, int]] = [
    *(
        (path, LLAMA | {"engine": engine}, 200)
        for engine in ("none", "vllm", "sglang", "tensorrt-llm", "llama.cpp")
        for path in ("/fit", "/traffic")
    ),
    ("/fit", {"command": COMMAND, "gpu": "h100-sxm-80gb"}, 200),
    ("/logs", EXAMPLES["vLLM on an H100"]["value"], 200),
    ("/fit?model=lama&gpu=a10", None, 422),
    *(
        (path, None, 200)
        for path in ("/models", "/gpus/a10", "/calibrations", "/accuracy", "/measurements", "/probes", "/metrics")
    ),
    ("/docs", None, 200),
]
# One that needs each of what is loaded ahead, or the whole application.
FIRST_OF_A_KIND = [ALL_KINDS[3], ALL_KINDS[10], ALL_KINDS[11], ALL_KINDS[12], ALL_KINDS[13], ALL_KINDS[19]]


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
    ours = "[name for name in set(sys.modules) - before if name.startswith('service.')]"
    ours = f"{ours} + [name for name in sys.modules if name.startswith('sqlalchemy.orm')]"
    code = f"{LOADED_AHEAD}assert [ask(*kind[:2]) for kind in {ALL_KINDS}] == {[kind[2] for kind in ALL_KINDS]}"

    assert printed(f"{code}\nprint(json.dumps({ours}))", loaded) == set()


@pytest.mark.parametrize("path, asked, status", FIRST_OF_A_KIND)
def test_the_first_question_of_a_kind_loads_what_it_needs(loaded: str, path: str, asked: object, status: int) -> None:
    assert printed(f"{STARTED}print(json.dumps([ask({path!r}, {asked!r})]))", loaded) == {status}


def printed(code: str, database_url: str) -> set[Any]:
    variables = {**os.environ, "DATABASE_URL": database_url, "KVQUOTE_LOG_LEVEL": "critical"}
    return set(json.loads(subprocess.check_output([sys.executable, "-c", code], env=variables, text=True)))
