"""`/static/...`: the files that pages load, and no others."""

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hatchling.builders.wheel import WheelBuilder

from service.web import assets
from service.web.views import SWAGGER_UI

if TYPE_CHECKING:
    from flask.testing import FlaskClient

ROOT = Path(__file__).parents[2]
SCRIPT = f"/static/{SWAGGER_UI}/swagger-ui-bundle.js"


def test_a_file_comes_byte_for_byte(client: "FlaskClient") -> None:
    assert client.get(SCRIPT).data == (assets.STATIC / SWAGGER_UI / "swagger-ui-bundle.js").read_bytes()


def test_a_vendored_file_is_kept_for_ever(client: "FlaskClient") -> None:
    assert client.get(SCRIPT).headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_a_file_of_ours_is_asked_for_anew(client: "FlaskClient") -> None:
    answer = client.get("/static/docs.js")

    assert answer.headers["Cache-Control"] == "public, max-age=0, must-revalidate"


def test_its_tag_depends_on_its_bytes_alone(client: "FlaskClient") -> None:
    answer = client.get("/static/docs.js")

    assert answer.headers["ETag"] == f'"{blake2b(answer.data, digest_size=16).hexdigest()}"'


def test_a_browser_that_has_it_is_told_so(client: "FlaskClient") -> None:
    tag = client.get(SCRIPT).headers["ETag"]
    again = client.get(SCRIPT, headers={"If-None-Match": tag})

    assert (again.status_code, again.data) == (304, b"")


def test_asking_for_the_head_sends_no_body(client: "FlaskClient") -> None:
    answer = client.head("/static/docs.js")

    assert (answer.status_code, answer.data) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "views.py",
        "../views.py",
        "%2e%2e/views.py",
        "vendor/../../views.py",
        "/etc/passwd",
        "//etc/passwd",
        "docs.js%00",
        "docs.js/",
        "vendor/",
        "vendor/README.md",
        "../templates/docs.html",
    ],
)
def test_nothing_else_can_be_reached(client: "FlaskClient", path: str) -> None:
    answer = client.get(f"/static/{path}")

    assert (answer.status_code, answer.content_type) == (404, "application/problem+json")


def test_the_wheel_has_every_file_of_the_pages() -> None:
    packed = {each.distribution_path for each in WheelBuilder(str(ROOT)).recurse_included_files()}
    folder = ROOT / "service" / "web"
    there = {path for name in ("static", "templates") for path in (folder / name).rglob("*") if path.is_file()}

    assert len(there) >= 8
    assert {path.relative_to(ROOT).as_posix() for path in there} <= packed
