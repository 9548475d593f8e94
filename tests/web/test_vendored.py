"""Vendored files are what their README says, to the byte."""

import re
from hashlib import sha256

from service.web.assets import STATIC
from service.web.views import SWAGGER_UI

VENDOR = STATIC / "vendor"
README = (VENDOR / "README.md").read_text(encoding="utf-8")


def test_every_file_has_the_hash_that_is_written_down_and_none_is_extra() -> None:
    written = dict(re.findall(r"^\| `([^`]+)` \| `([0-9a-f]{64})` \|$", README, re.MULTILINE))
    files = (path for path in VENDOR.rglob("*") if path.is_file() and path.name != "README.md")

    assert {path.relative_to(VENDOR).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files} == written


def test_each_project_has_its_version_licence_and_origin_written_down() -> None:
    projects = [path.name.rpartition("-") for path in VENDOR.iterdir() if path.is_dir()]

    assert projects
    for name, _, version in projects:
        section = README.partition(f"## {name} {version}\n")[2]
        assert "Apache License 2.0" in section
        assert "integrity\n`sha512-" in section


def test_the_bundle_is_of_the_version_in_its_path() -> None:
    version = SWAGGER_UI.rpartition("-")[2]

    assert f'"{version}"' in (STATIC / SWAGGER_UI / "swagger-ui-bundle.js").read_text(encoding="utf-8")


def test_the_licences_lie_beside_what_they_cover() -> None:
    names = {path.name for path in (STATIC / SWAGGER_UI).iterdir()}

    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"} <= names
