"""Tokens at the door: who is let in, what others are told, and how soon a revoked one is shut out."""

import json
import logging
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from service.api.services import services_of
from service.storage.database import writing
from service.storage.tokens import Scope, new_secret, revoke_token
from tests.api.asking import problem
from tests.api.desk import CARD, MODEL, Desk, bearer, card, fill, opened_desk

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

GUARDED = [
    (method, f"{path}/x")
    for method in ("PUT", "DELETE")
    for path in ("/models", "/gpus", "/instances", "/dtypes", "/engines")
]


def write(desk: Desk, authorization: str | None, **query: str) -> "TestResponse":
    headers = (
        {"If-None-Match": "*"} if authorization is None else {"If-None-Match": "*", "Authorization": authorization}
    )
    return desk.client.put("/gpus/my-card", json=card("my-card"), headers=headers, query_string=query)


@pytest.mark.parametrize("method, path", GUARDED)
def test_no_write_is_let_through_without_a_token(shared_desk: Desk, method: str, path: str) -> None:
    response = shared_desk.client.open(path, method=method)

    problem(response, 401, "token-required")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="kvquote"'


def test_every_route_that_writes_is_guarded(shared_desk: Desk) -> None:
    harmless = {"/fit", "/traffic", "/models/inspect", "/logs"}
    for rule in shared_desk.app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}:
            if rule.rule not in harmless:
                path = re.sub(r"<[^>]+>", "x", rule.rule)
                assert shared_desk.client.open(path, method=method).status_code == 401, (method, rule.rule)


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer", "Bearer ", "Bearer  two-blanks", "bearer", "Basic dXNlcjpwYXNz", "Token x", "x" * 8192,
        "Bearer " + "x" * 8192, "Bearer \xe9", "\xe9", "Bearer kvq_", "Bearer kvq_00000000000_" + "0" * 49,
        "Bearer kvq_x kvq_y", "Bearer null", "",
    ],
)  # fmt: skip
def test_what_is_no_token_is_refused_alike(shared_desk: Desk, authorization: str) -> None:
    response = write(shared_desk, authorization)

    found = problem(response, 401, "invalid-token")
    assert found["detail"] == "The token is not valid: it is unknown, expired or revoked."
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="kvquote", error="invalid_token"'


def test_unknown_wrong_expired_and_revoked_tokens_cannot_be_told_apart(desk: Desk) -> None:
    _, unknown = new_secret()
    known = bearer(desk.app, Scope.CATALOG_WRITE)["Authorization"].removeprefix("Bearer ")
    expired = bearer(desk.app, Scope.CATALOG_WRITE, lifetime=timedelta(0))["Authorization"]
    revoked = bearer(desk.app, Scope.CATALOG_WRITE)["Authorization"]
    revoke(desk, revoked)
    answers = []
    for authorization in (f"Bearer {unknown}", f"Bearer {known[:20]}{unknown[20:]}", expired, revoked):
        response = write(desk, authorization)
        body = response.get_json()
        body.pop("request_id")
        answers.append((response.status_code, body, response.headers["WWW-Authenticate"]))

    assert answers == [answers[0]] * 4
    assert answers[0][0] == 401


def revoke(desk: Desk, authorization: str) -> None:
    with writing(services_of(desk.app).engine) as connection:
        assert revoke_token(connection, authorization.split("_")[1], "tests")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_be_written_in_any_case(desk: Desk, scheme: str) -> None:
    token = desk.writer["Authorization"].removeprefix("Bearer ")

    assert write(desk, f"{scheme} {token}").status_code == 201


def test_a_revoked_token_is_refused_in_every_worker_within_the_stated_seconds(database_url: str) -> None:
    fill(database_url)
    with (
        opened_desk(database_url, KVQUOTE_TOKEN_CACHE_SECONDS="0") as here,
        opened_desk(database_url, KVQUOTE_TOKEN_CACHE_SECONDS="0") as there,
    ):
        authorization = here.writer["Authorization"]
        assert write(here, authorization).status_code == 201
        assert write(there, authorization).status_code == 412

        revoke(here, authorization)

        assert [write(desk, authorization).status_code for desk in (here, there)] == [401, 401]


def test_a_token_in_the_query_is_none(shared_desk: Desk) -> None:
    token = shared_desk.writer["Authorization"].removeprefix("Bearer ")

    problem(write(shared_desk, None, token=token, access_token=token), 401, "token-required")


def test_a_token_is_never_in_a_log(
    shared_desk: Desk, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = shared_desk.writer["Authorization"].removeprefix("Bearer ")
    secret = token.rpartition("_")[2]

    write(shared_desk, f"Bearer {token}x")
    write(shared_desk, None, token=token)
    write(shared_desk, "Bearer " + token, overwrite_measured=token)
    shared_desk.client.get(f"/gpus/{token}")

    printed = "".join(capsys.readouterr())
    assert len([line for line in printed.splitlines() if json.loads(line)["event"] == "http_request"]) == 4
    assert secret not in printed
    assert secret not in caplog.text


def test_a_token_costs_no_sql_once_it_is_known(shared_desk: Desk) -> None:
    services = services_of(shared_desk.app)
    write(shared_desk, shared_desk.reader["Authorization"])
    statements: list[str] = []
    event.listen(services.engine, "before_cursor_execute", lambda *call: statements.append(str(call[2])))

    write(shared_desk, shared_desk.reader["Authorization"])

    assert [statement for statement in statements if "api_token" in statement] == []


def test_who_may_not_write_learns_it_before_the_body_is_read(shared_desk: Desk) -> None:
    headers = {**shared_desk.reader, "If-Match": "*"}

    problem(shared_desk.client.put(CARD, data=b"{", headers=headers), 403, "missing-scope")


def test_no_token_can_manage_tokens(shared_desk: Desk) -> None:
    rules = {rule.rule for rule in shared_desk.app.url_map.iter_rules()}

    assert [rule for rule in rules if "token" in rule] == []
    for path in ("/tokens", f"/tokens/{shared_desk.writer['Authorization'].split('_')[1]}"):
        problem(shared_desk.client.delete(path, headers=shared_desk.writer), 404, "not-found")


READS = [
    "/gpus",
    CARD,
    f"{CARD}/revisions",
    "/models",
    MODEL,
    "/fit?model=llama-2-7b&gpu=a10",
    "/traffic?model=llama-2-7b&gpu=a10",
]
OPEN = ["/livez", "/readyz", "/metrics", "/openapi.json", "/problems/not-found"]


@pytest.mark.parametrize("path", [*READS, *OPEN])
def test_reading_needs_no_token(shared_desk: Desk, path: str) -> None:
    assert shared_desk.client.get(path).status_code == 200


def test_where_reading_is_closed_any_token_opens_it(database_url: str) -> None:
    fill(database_url)
    with opened_desk(database_url, KVQUOTE_OPEN_READS="false") as desk:
        for path in READS:
            problem(desk.client.get(path), 401, "token-required")
            for headers in (desk.reader, desk.writer):
                assert desk.client.get(path, headers=headers).status_code == 200
        problem(desk.client.post("/fit", json={}), 401, "token-required")
        assert desk.client.options("/fit").status_code == 200
        for path in OPEN:
            assert desk.client.get(path).status_code == 200
