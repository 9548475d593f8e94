"""ETag and If-None-Match: who has the present answer is told so without computing it again."""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from service.api import conditional
from tests.api.asking import QUESTION, problem

if TYPE_CHECKING:
    from flask import Flask
    from flask.testing import FlaskClient

    from tests.conftest import AppMaker

PATHS = ["/fit", "/traffic"]


def tag_of(client: "FlaskClient", path: str = "/fit", **changes: object) -> str:
    response = client.get(path, query_string={**QUESTION, **changes})
    assert response.status_code == 200
    return response.headers["ETag"]


@pytest.mark.parametrize("path", PATHS)
def test_it_works(client: "FlaskClient", path: str) -> None:
    tag = tag_of(client, path)

    again = client.get(path, query_string=QUESTION, headers={"If-None-Match": tag})

    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == tag
    assert again.headers["Cache-Control"] == "private, max-age=0, must-revalidate"
    assert "Content-Type" not in again.headers


def test_every_get_that_is_answered_has_a_strong_tag(app: "Flask") -> None:
    client = app.test_client()
    for rule in app.url_map.iter_rules():
        # A single measurement is there only once one was sent, and the bare address only leads on.
        if "GET" in (rule.methods or ()) and rule.rule not in {"/measurements/<measurement_id>", "/"}:
            response = client.get(address(rule.rule))
            assert response.status_code == 200, rule.rule
            assert response.headers["ETag"].startswith('"'), rule.rule


def address(rule: str) -> str:
    """A path under a rule, with a question where it takes one."""
    names = {
        "/problems": "too-deep", "/models": "llama-2-7b", "/gpus": "a10", "/dtypes": "fp8", "/engines": "none",
        "/instances": "aws-p5-48xlarge", "/static": "docs.css",
    }  # fmt: skip
    first = rule[: rule.find("/", 1)] if rule.count("/") > 1 else rule
    path = rule.replace("<path:name>", names.get(first, "")).replace("<name>", names.get(first, ""))
    return f"{path}?{urlencode(QUESTION)}" if rule in {"/fit", "/traffic"} else path


@pytest.mark.parametrize("path", ["/openapi.json", "/problems/too-deep", "/livez"])
def test_a_document_is_not_sent_twice(client: "FlaskClient", path: str) -> None:
    tag = client.get(path).headers["ETag"]

    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304


@pytest.mark.parametrize("given", ["{tag}", "W/{tag}", '"x", {tag}', '"x",W/{tag} , "y"', "*"])
def test_any_spelling_of_the_present_tag_matches(client: "FlaskClient", given: str) -> None:
    headers = {"If-None-Match": given.replace("{tag}", tag_of(client))}

    assert client.get("/fit", query_string=QUESTION, headers=headers).status_code == 304


@pytest.mark.parametrize("given", ['"x"', "x", '""', "W/", ",,,", '"' + "x" * 8000 + '"', "\xff", '"x" "y"'])
def test_anything_else_is_answered_in_full(client: "FlaskClient", given: str) -> None:
    assert client.get("/fit", query_string=QUESTION, headers={"If-None-Match": given}).status_code == 200


def test_a_matching_tag_spares_the_computation(client: "FlaskClient", monkeypatch: pytest.MonkeyPatch) -> None:
    tag = tag_of(client)
    monkeypatch.setattr("service.api.fit.fit_answer", lambda *_: pytest.fail("was computed"))

    assert client.get("/fit", query_string=QUESTION, headers={"If-None-Match": tag}).status_code == 304


def test_a_bad_question_is_refused_whatever_the_client_has(client: "FlaskClient") -> None:
    bad = {**QUESTION, "modle": "x"}

    problem(client.get("/fit", query_string=bad, headers={"If-None-Match": "*"}), 422, "validation-error")


def test_a_question_about_nothing_is_refused_whatever_the_client_has(client: "FlaskClient") -> None:
    unknown = {**QUESTION, "model": "nothing"}

    problem(client.get("/fit", query_string=unknown, headers={"If-None-Match": "*"}), 422, "unknown-model")


def test_the_tag_is_one_for_all_spellings_of_a_question(client: "FlaskClient") -> None:
    turned = "&".join(f"{name}={value}" for name, value in reversed(QUESTION.items()))

    assert client.get(f"/fit?{turned}").headers["ETag"] == tag_of(client)


def test_the_tag_is_another_for_another_question_or_resource(client: "FlaskClient") -> None:
    assert len({tag_of(client), tag_of(client, batch_size=2), tag_of(client, "/traffic")}) == 3


def test_the_tag_is_another_for_another_catalog() -> None:
    assert conditional.question_tag("/fit", QUESTION, 1) != conditional.question_tag("/fit", QUESTION, 2)


def test_the_tag_is_the_same_from_every_copy(client: "FlaskClient", make_app: "AppMaker", app: "Flask") -> None:
    url = app.extensions["kvquote"].settings.database_url
    copy = make_app(url, KVQUOTE_WORKERS="7").test_client()

    answers = [one.get("/fit", query_string=QUESTION) for one in (client, copy)]

    assert answers[0].data == answers[1].data
    assert answers[0].headers["ETag"] == answers[1].headers["ETag"]


def test_a_posted_question_has_no_tag(client: "FlaskClient") -> None:
    assert "ETag" not in client.post("/fit", json=QUESTION).headers
