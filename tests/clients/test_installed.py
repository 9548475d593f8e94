"""The distribution in an environment of its own that holds nothing else but what it says it needs."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.api.probing import H100, new_lab
from tests.clients import serving
from tests.clients.probe.engine.fake_engine import fake_engine
from tests.clients.probe.engine.servers import VLLM_0_24
from tests.clients.probe.engine.servers import served as engine_pages
from tests.databases import Databases
from tests.tooling.repository import ROOT

CLIENTS = ROOT / "clients"
QUESTION = ("llama-2-7b", "a100-sxm-80gb", "--context", "4096")


def ran(*words: object) -> str:
    """What a command prints, as someone would run it who has no other Python set up."""
    clean = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    run = subprocess.run([*map(str, words)], env=clean, capture_output=True, text=True, check=False, cwd="/")
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(build, cwd=CLIENTS, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, and of what the tests have only what it asks for."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--offline", "--python", sys.executable, folder], check=True)
    options = ("--quiet", "--offline", "--no-deps", "--no-cache", "--python", str(folder / "bin/python"))
    subprocess.run([uv, "pip", "install", *options, str(wheel)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for path in needed_files():
        if not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    return folder


def needed_files() -> Iterator[Path]:
    """The top of each distribution that `pip install` would bring along, as the tests' own environment has it."""
    wanted = [Requirement(text).name for text in project()["dependencies"]]
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        yield from {Path(str(found.locate_file(file.parts[0]))) for file in found.files or () if file.parts[0] != ".."}
        needs = (Requirement(text) for text in requires(name) or ())
        wanted += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]


def project() -> dict[str, list[str]]:
    declared: dict[str, list[str]] = tomllib.loads((CLIENTS / "pyproject.toml").read_text())["project"]
    return declared


def test_it_needs_requests_and_nothing_else() -> None:
    assert [Requirement(text).name for text in project()["dependencies"]] == ["requests"]
    assert "optional-dependencies" not in project()


def test_the_wheel_holds_both_packages_typed_and_nothing_of_the_service(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}

    assert tops == {"kvquote_client", "kvquote_probe"}
    assert {"kvquote_client/py.typed", "kvquote_probe/py.typed", "kvquote_client/cli/__init__.py"} <= set(names)


def test_the_sdk_asks_a_service(environment: Path, service_url: str) -> None:
    program = f"""
from kvquote_client import Client
with Client({service_url!r}) as kvquote:
    print(kvquote.fit(model="llama-2-7b", gpu="a100-sxm-80gb", context_tokens=4096).max_sequences)
"""

    assert ran(environment / "bin/python", "-W", "error", "-c", program) == "28\n"


def test_the_command_asks_a_service(environment: Path, service_url: str) -> None:
    printed = ran(environment / "bin/kvquote", "fit", *QUESTION, "--json", "--url", service_url)

    assert json.loads(printed)["max_sequences"] == 28


def test_the_probe_reads_an_engine_and_tells_a_service(environment: Path, sqlite: Databases, tmp_path: Path) -> None:
    with fake_engine() as engine, sqlite.migrated() as url, new_lab(url) as lab, serving.served(lab.app) as address:
        engine.pages = engine_pages(VLLM_0_24)
        token = lab.probe["Authorization"].removeprefix("Bearer ")
        places = ("--spool", tmp_path, "--url", address, "--token", token)
        ran(environment / "bin/kvquote-probe", "engine", engine.url, "--gpu", H100, *places)

        assert [row["kind"] for row in lab.listed()] == ["engine_capacity"]


def test_the_command_says_that_local_needs_the_service(environment: Path) -> None:
    command: list[str | Path] = [environment / "bin/kvquote", "gpus", "--local"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env={"PATH": "/usr/bin"})

    assert run.returncode == 4
    assert "needs the service package" in run.stderr
