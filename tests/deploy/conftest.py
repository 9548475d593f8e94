"""The files under service/deploy as an orchestrator reads them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.settings import DEPLOY

Services = dict[str, dict[str, Any]]


def composed(**environment: str) -> "subprocess.CompletedProcess[str]":
    """Docker Compose's own reading of compose.yaml; it needs no Docker for that."""
    compose = Path(sys.executable).with_name("docker-compose")
    command: list[str | Path] = [compose, "-f", DEPLOY / "compose.yaml", "config", "--format", "json"]
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    done = composed(POSTGRES_PASSWORD="secret")
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="session")
def services(compose: dict[str, Any]) -> Services:
    found: Services = compose["services"]
    return found
