"""The image without a container engine: its RUN steps are replayed in a folder, then its commands answer a quote."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.tooling.dockerfile import environment, exec_form, instructions, named
from tests.tooling.repository import ROOT

pytestmark = pytest.mark.timeout(400)

QUESTION = "/fit?model=llama-2-7b&gpu=a100-sxm-80gb&context_tokens=4096"


def replayed(command: str, folder: Path) -> str:
    """A RUN step's words with the container's paths and base interpreter replaced by what is here."""
    python = sys.executable
    at_home = command.replace("/opt/", f"{folder}/opt/").replace("/data", f"{folder}/data")
    at_home = at_home.replace("pip --python", f"{python} -m pip -qq --python").replace(
        "python -m venv", f"{python} -m venv"
    )
    return at_home.replace("--no-cache-dir", "").replace("-o 10001 -g 10001", "")


def copy(rest: str, folder: Path) -> None:
    *sources, target = rest.split()
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, folder / target)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the Dockerfile leaves under /opt and /data."""
    folder = tmp_path_factory.mktemp("image")
    build = folder / "build"
    build.mkdir()
    for each in instructions():
        if each.name == "RUN":
            subprocess.run(replayed(each.rest, folder), shell=True, cwd=build, check=True)
        elif each.name == "COPY" and not each.rest.startswith("--from"):
            copy(each.rest, build)
    return folder


@pytest.fixture(scope="module")
def container_environment(image: Path) -> dict[str, str]:
    inside = {name: value.replace("/data", f"{image}/data") for name, value in environment().items()}
    path = f"{image}/opt/kvquote/bin:{os.environ['PATH']}"
    return {**inside, "PATH": path, "HOST": "127.0.0.1", "PORT": str(free_port()), "HOME": "/nonexistent"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run_in(image: Path, environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([_found(image, words[0]), *words[1:]], env=environ, cwd=image / "data", check=False)


def _found(image: Path, command: str) -> str:
    return str(image / "opt" / "kvquote" / "bin" / command)


@pytest.fixture(scope="module")
def container(image: Path, container_environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The started container, its database migrated and its catalog loaded as the README says."""
    program = exec_form(named("ENTRYPOINT")[0].rest)[0]
    for words in (("db", "upgrade"), ("catalog", "load")):
        assert run_in(image, container_environment, program, *words).returncode == 0
    command = [_found(image, program), *exec_form(named("CMD")[0].rest)]
    process = subprocess.Popen(command, env=container_environment, cwd=image / "data")
    yield process
    process.kill()
    process.wait()


def healthy(image: Path, environ: dict[str, str]) -> bool:
    return run_in(image, environ, *exec_form(named("HEALTHCHECK")[0].rest)).returncode == 0


def test_the_container_turns_healthy_answers_a_quote_and_ends_on_sigterm(
    image: Path, container_environment: dict[str, str], container: subprocess.Popen[bytes]
) -> None:
    end_at = time.monotonic() + 60
    while not healthy(image, container_environment) and time.monotonic() < end_at:
        time.sleep(0.2)
    connection = HTTPConnection("127.0.0.1", int(container_environment["PORT"]), timeout=10)
    connection.request("GET", QUESTION)
    answer = json.load(connection.getresponse())
    connection.close()
    container.send_signal(signal.SIGTERM)

    assert answer["max_sequences"] == 28
    assert container.wait(timeout=30) == 0
    assert not healthy(image, container_environment)
