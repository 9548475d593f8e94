"""The locks: what an image, a first run and CI install, to the byte."""

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tooling.repository import LOCKS, pyproject

NAMES = ("requirements.txt", "requirements-build.txt", "requirements-dev.txt")


def locked(name: str) -> dict[str, str]:
    lines = (LOCKS / name).read_text(encoding="utf-8").splitlines()
    pins = (re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", line) for line in lines)
    return {canonicalize_name(pin[1]): pin[2] for pin in pins if pin}


def unmet(wanted: list[str], versions: dict[str, str]) -> list[str]:
    requirements = [Requirement(text) for text in wanted]
    return [
        str(each)
        for each in requirements
        if not each.specifier.contains(versions.get(canonicalize_name(each.name), "0"), prereleases=True)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_names_no_address(name: str) -> None:
    text = (LOCKS / name).read_text(encoding="utf-8")

    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_lock_is_pinned_and_hashed(name: str) -> None:
    text = (LOCKS / name).read_text(encoding="utf-8")
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]

    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []


def test_the_run_time_lock_has_what_the_service_depends_on() -> None:
    assert unmet(pyproject()["project"]["dependencies"], locked("requirements.txt")) == []


def test_the_development_lock_has_what_the_service_and_its_tests_depend_on() -> None:
    project = pyproject()["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]

    assert unmet(wanted, locked("requirements-dev.txt")) == []


def test_the_build_lock_has_what_building_the_package_asks_for() -> None:
    assert unmet(pyproject()["build-system"]["requires"], locked("requirements-build.txt")) == []


def test_the_group_that_is_locked_for_building_repeats_what_building_asks_for() -> None:
    assert pyproject()["dependency-groups"]["build"] == pyproject()["build-system"]["requires"]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_tests_run_on_the_versions_that_are_deployed(name: str) -> None:
    tested = locked("requirements-dev.txt")

    assert {package: tested.get(package) for package in locked(name)} == locked(name)


def test_a_missing_or_old_package_would_be_noticed() -> None:
    assert unmet(["flask>=3.1,<3.2", "absent>=1"], {"flask": "3.0.0"}) == ["flask<3.2,>=3.1", "absent>=1"]
