"""The deployment README says what is there: files, variables, commands, metrics, and seconds that add up."""

import re
from typing import TYPE_CHECKING

import click
import pytest

from service.cli import main
from tests.deploy.conftest import Services
from tests.deploy.manifests import containers, manifest, pod
from tests.deploy.settings import DEPLOY, ROOT, known_names

if TYPE_CHECKING:
    from tests.conftest import AppMaker

README = (DEPLOY / "README.md").read_text(encoding="utf-8")
COMPOSE = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
COMMANDS = "\n".join(re.findall(r"^\$ (.*)$", README, re.MULTILINE))


def paths_named() -> set[str]:
    linked = re.findall(r"\]\(([^)#]+)\)", README)
    quoted = re.findall(r"`([\w./-]+\.(?:yaml|conf|py|txt))`", README)
    return {*linked, *quoted}


def test_every_file_that_is_named_is_there() -> None:
    named = paths_named()

    assert len(named) > 8
    assert [
        name for name in named if not any((folder / name).exists() for folder in (DEPLOY, DEPLOY / "kubernetes", ROOT))
    ] == []


def test_every_file_that_is_there_is_named() -> None:
    there = {path.name for path in DEPLOY.iterdir()} - {"__init__.py", "__pycache__", "README.md"}

    assert {name for name in there if f"`{name}`" not in README and f"`{name}/`" not in README} == set()


def test_every_variable_that_is_named_is_read() -> None:
    named = set(re.findall(r"\b((?:KVQUOTE|POSTGRES|PROMETHEUS)_[A-Z_]+|DATABASE_URL)\b", README))
    taken_by_compose = set(re.findall(r"\$\{([A-Z_]+):[-?]", COMPOSE))

    assert named
    assert named - known_names() - taken_by_compose == set()


def test_every_variable_of_compose_has_a_row_with_its_default() -> None:
    rows = re.findall(r"^\| (`[A-Z_`, ]+`) \| ([^|]+) \|", README, re.MULTILINE)
    written = {
        name: default.strip(" `")
        for names, defaults in rows
        for name, default in zip(re.findall("[A-Z_]+", names), defaults.split(", "), strict=True)
    }
    defaults = dict(re.findall(r"\$\{([A-Z_]+):-(\w+)\}", COMPOSE))

    assert defaults.items() <= written.items()
    assert written["POSTGRES_PASSWORD"] == "none: it must be given"


def test_every_command_of_the_service_that_is_named_is_one() -> None:
    named = re.findall(r"kvquote-server (\w+) (\w+)", README)

    assert named
    for group, command in named:
        found = main.commands[group]
        assert isinstance(found, click.Group)
        assert command in found.commands


def test_every_container_that_a_command_names_is_one(services: Services) -> None:
    named = re.findall(r"compose (?:exec -T|stop) (\S+)", COMMANDS)

    assert named
    assert set(named) <= set(services)


def test_every_object_that_a_command_names_is_one() -> None:
    jobs = re.findall(r"job[/ ](\S+)", COMMANDS)
    secrets = re.findall(r"secret generic (\S+) --from-literal=(\w+)=", COMMANDS)
    (database,) = containers("deployment.yaml")[0]["env"]

    assert set(jobs) == {manifest("migrate.yaml")["metadata"]["name"]}
    assert re.findall(r"deployment/(\S+)", COMMANDS) == [manifest("deployment.yaml")["metadata"]["name"]]
    assert [{"name": name, "key": key} for name, key in secrets] == [database["valueFrom"]["secretKeyRef"]]


def test_every_metric_has_a_row_and_no_row_is_for_nothing(make_app: "AppMaker") -> None:
    client = make_app("sqlite:////nowhere/at/all.db").test_client()
    client.get("/livez")
    measured = set(re.findall(r"^# TYPE (kvquote_\w+)", client.get("/metrics").text, re.MULTILINE))

    # Without a database nobody knows a revision.
    measured |= {"kvquote_catalog_revision", "kvquote_calibration_revision"}

    assert set(re.findall(r"^\| `(kvquote_\w+)` \|", README, re.MULTILINE)) == measured


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(/(?:\w+z|metrics|fit|traffic))`", README))))
def test_every_path_that_is_named_is_one(make_app: "AppMaker", path: str) -> None:
    app = make_app("sqlite:////nowhere/at/all.db")

    assert path in {rule.rule for rule in app.url_map.iter_rules()}


def test_the_seconds_are_those_of_the_manifests() -> None:
    (service,) = containers("deployment.yaml")
    ready = service["readinessProbe"]
    pause = service["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert f"{ready['periodSeconds'] * ready['failureThreshold']} s, which outlasts" in README
    assert f"gets {pod('deployment.yaml')['terminationGracePeriodSeconds']} s: {pause} s until" in README


def test_the_port_is_the_one_that_the_proxy_opens() -> None:
    assert re.findall(r"http://127\.0\.0\.1:(\d+)/fit", COMMANDS) == re.findall(r"KVQUOTE_PORT:-(\d+)", COMPOSE)
