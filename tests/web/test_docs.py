"""`/docs`: there, complete, and asking nothing of another host. `make test-browser` looks at it in a browser."""

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from service.web import assets
from service.web.views import SWAGGER_UI
from tests.web import page

if TYPE_CHECKING:
    from flask.testing import FlaskClient

OWN_FILES = sorted(path for path in assets.STATIC.glob("*.*"))


@pytest.fixture
def docs(client: "FlaskClient") -> page.Page:
    return page.read(client.get("/docs").text)


def test_it_is_a_page(client: "FlaskClient") -> None:
    answer = client.get("/docs")

    assert (answer.status_code, answer.content_type) == (200, "text/html; charset=utf-8")


def test_every_address_on_it_is_on_this_host(docs: page.Page) -> None:
    split = [urlsplit(address) for address in docs.addresses]

    assert docs.addresses
    assert [each.geturl() for each in split if each.netloc or each.scheme not in {"", "data"}] == []


def test_every_file_that_it_loads_is_there_with_its_type(client: "FlaskClient", docs: page.Page) -> None:
    answers = {path: client.get(path) for path in docs.loaded}

    assert [path.rsplit("/", 1)[1] for path in docs.loaded] == [
        "swagger-ui.css", "docs.css", "swagger-ui-bundle.js", "docs.js",
    ]  # fmt: skip
    assert {answer.status_code for answer in answers.values()} == {200}
    assert {path.rsplit(".", 1)[1]: answer.mimetype for path, answer in answers.items()} == {
        "css": "text/css",
        "js": "text/javascript",
    }


def test_it_holds_no_script_and_no_style_that_its_policy_would_stop(docs: page.Page) -> None:
    assert docs.inline == []


def test_its_policy_lets_nothing_come_from_or_go_to_another_host(client: "FlaskClient") -> None:
    policy = client.get("/docs").headers["Content-Security-Policy"]
    directives = dict(directive.split(maxsplit=1) for directive in policy.split(";"))

    assert directives["default-src"] in {"'self'", "'none'"}
    assert {source for sources in directives.values() for source in sources.split()} <= {"'self'", "'none'", "data:"}


def test_it_names_the_description_that_is_served(client: "FlaskClient") -> None:
    named = re.search(r'data-description="([^"]+)"', client.get("/docs").text)

    assert named is not None
    assert client.get(named[1]).get_json()["openapi"].startswith("3.1")


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: path.name)
def test_a_file_of_ours_names_no_host(path: Path) -> None:
    assert "://" not in path.read_text(encoding="utf-8")


def test_its_script_asks_no_validator() -> None:
    assert "validatorUrl: null," in (assets.STATIC / "docs.js").read_text(encoding="utf-8")


def test_the_vendored_style_loads_nothing() -> None:
    style = (assets.STATIC / SWAGGER_UI / "swagger-ui.css").read_text(encoding="utf-8")
    loaded = re.findall(r"url\(\s*[\"']?(\w*:?)", style)

    assert set(loaded) == {"data:"}
    assert "@import" not in style


def test_a_browser_that_has_it_is_told_so(client: "FlaskClient") -> None:
    tag = client.get("/docs").headers["ETag"]

    assert client.get("/docs", headers={"If-None-Match": tag}).status_code == 304


def test_it_takes_no_other_method(client: "FlaskClient") -> None:
    answer = client.post("/docs")

    assert (answer.status_code, answer.content_type) == (405, "application/problem+json")


def test_the_bare_address_leads_to_it_behind_any_prefix(client: "FlaskClient") -> None:
    reply = client.get("/")

    assert (reply.status_code, reply.headers["Location"]) == (302, "docs")
