"""Conditional GETs of catalog entries, answered without Flask: as by the long way, and only where it may be."""

from typing import TYPE_CHECKING, Any

import pytest

from service.telemetry import request_ids

if TYPE_CHECKING:
    from flask import Flask

    from tests.conftest import AppMaker
    from tests.databases import Databases

GPU = "/gpus/a10"
ENTRIES = [
    *("/models/llama-2-7b", "/models/meta-llama/Llama-2-7b-hf", GPU, "/gpus/NVIDIA%20A10"),
    *("/dtypes/fp8", "/engines/none", "/instances/aws-p5-48xlarge"),
]


def tag_of(app: "Flask", path: str) -> str:
    return app.test_client().get(path).headers["ETag"]


def asks_flask(app: "Flask", monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Told each time that Flask is asked from now on."""
    seen: list[str] = []
    dispatch = app.full_dispatch_request

    def noted(*context: Any) -> Any:  # noqa: ANN401 - as Flask's own
        seen.append("asked")
        return dispatch(*context)

    monkeypatch.setattr(app, "full_dispatch_request", noted)
    return seen


def without_id(headers: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - werkzeug's
    return sorted((name, value) for name, value in headers if name != request_ids.HEADER)


@pytest.mark.parametrize("path", ENTRIES)
def test_it_is_the_same_answer_as_by_the_long_way(app: "Flask", monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    tag, asked = tag_of(app, path), asks_flask(app, monkeypatch)

    fast = app.test_client().get(path, headers={"If-None-Match": tag})
    assert not asked
    slow = app.test_client().get(path, headers={"If-None-Match": f'"other", {tag}'})
    assert asked

    assert (fast.status, fast.data) == (slow.status, slow.data) == ("304 NOT MODIFIED", b"")
    assert without_id(fast.headers) == without_id(slow.headers)


@pytest.mark.parametrize(
    "changes, status",
    [
        ({"headers": {"If-None-Match": '"another"'}}, 200),
        ({"headers": {"If-None-Match": "*"}}, 304),
        ({"query_string": {"as_of": "2026-01-01T00:00:00Z"}}, 422),
        ({"query_string": {"nonsense": "1"}}, 422),
        ({"headers": {"Accept": "text/html"}}, 406),
        ({"method": "HEAD"}, 304),
        ({"method": "DELETE"}, 401),
        ({"path": f"{GPU}/revisions"}, 200),
        ({"path": "/gpus/nobody"}, 404),
        ({"path": "/gpus/"}, 404),
        ({"path": "/models/a10"}, 404),
        ({"path": "/nothing/a10"}, 404),
        ({"environ_overrides": {"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": None}}, 400),
    ],
)
def test_whatever_else_is_asked_is_answered_as_before(
    app: "Flask", monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], status: int
) -> None:
    headers = {"If-None-Match": tag_of(app, GPU), **changes.pop("headers", {})}
    missing = [name for name, value in changes.get("environ_overrides", {}).items() if value is None]
    asked = asks_flask(app, monkeypatch)
    client = app.test_client()
    if missing:
        inner = app.wsgi_app
        monkeypatch.setattr(app, "wsgi_app", lambda environ, start: inner(_without(environ, missing), start))
        changes["environ_overrides"] = {"SERVER_PROTOCOL": "HTTP/1.1"}

    answer = client.open(**{"path": GPU, "method": "GET", "headers": headers, **changes})

    assert (answer.status_code, bool(asked)) == (status, True)


def _without(environ: dict[str, Any], names: list[str]) -> dict[str, Any]:
    for name in names:
        environ.pop(name, None)
    return environ


def test_nobody_is_spared_the_look_at_the_token(sqlite: "Databases", make_app: "AppMaker", app: "Flask") -> None:
    with sqlite.loaded() as url:
        closed = make_app(url, KVQUOTE_OPEN_READS="false")

        answer = closed.test_client().get(GPU, headers={"If-None-Match": tag_of(app, GPU)})

    assert answer.status_code == 401


def test_nobody_is_spared_the_look_at_the_origin(sqlite: "Databases", make_app: "AppMaker", app: "Flask") -> None:
    origin = "https://pages.example"
    with sqlite.loaded() as url:
        shared = make_app(url, KVQUOTE_CORS_ORIGINS=origin)

        answer = shared.test_client().get(GPU, headers={"If-None-Match": tag_of(app, GPU), "Origin": origin})

    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (304, origin)


def test_the_route_is_counted_as_the_long_way_counts_it(app: "Flask") -> None:
    tag = tag_of(app, GPU)
    before = _counted(app)

    app.test_client().get(GPU, headers={"If-None-Match": tag})
    app.test_client().get(GPU, headers={"If-None-Match": f'"x", {tag}'})

    assert _counted(app) == before + 2


def _counted(app: "Flask") -> float:
    wanted = 'route="/gpus/<path:name>",status="304"'
    lines = app.test_client().get("/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if wanted in line and "_total" in line)
