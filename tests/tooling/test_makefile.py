"""The Makefile and what CI runs: short recipes, listed commands, and nothing installed twice."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tooling.repository import ROOT

FAKE_PYTHON = '#!/bin/sh\necho "$@" >> "$(dirname "$0")/../calls"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that `make run` looks at, with a stand-in for .venv that writes down what it is asked to do."""
    (tmp_path / "service" / "deploy").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    for lock in (ROOT / "service/deploy").glob("*.txt"):
        shutil.copy(lock, tmp_path / "service" / "deploy" / lock.name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for command in ("python", "kvquote-server"):
        program = tmp_path / ".venv" / "bin" / command
        program.write_text(FAKE_PYTHON)
        program.chmod(0o755)
    return tmp_path


def make(folder: Path, *words: str) -> str:
    # A make that runs these tests must not hand its own flags and variables to this one.
    environ = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "PORT"}}
    return subprocess.run(["make", *words], cwd=folder, env=environ, check=True, capture_output=True, text=True).stdout


def calls(folder: Path) -> list[str]:
    """What the stand-ins were asked since the last look."""
    written = folder / ".venv" / "calls"
    lines = written.read_text().splitlines()
    written.unlink()
    return lines


def installs(folder: Path) -> int:
    return sum("-m pip install" in line for line in calls(folder))


def test_the_first_run_installs_the_locks_by_hash_then_migrates_loads_and_serves(checkout: Path) -> None:
    make(checkout, "run")
    first, second, *rest = calls(checkout)

    assert "--require-hashes -r service/deploy/requirements.txt" in first
    assert "--no-deps" in second
    assert rest == ["serve --check", "db upgrade", "catalog load", "serve"]


def test_a_second_run_installs_nothing(checkout: Path) -> None:
    make(checkout, "run")
    calls(checkout)
    os.utime(checkout / "service" / "deploy" / "requirements.txt")
    make(checkout, "run")

    assert calls(checkout) == ["serve --check", "db upgrade", "catalog load", "serve"]


def test_a_changed_lock_is_installed(checkout: Path) -> None:
    make(checkout, "install")
    calls(checkout)
    with (checkout / "service" / "deploy" / "requirements.txt").open("a") as lock:
        lock.write("# changed\n")
    make(checkout, "install")

    assert installs(checkout) == 2


def test_what_development_installed_serves_for_a_run_too(checkout: Path) -> None:
    make(checkout, "dev")
    calls(checkout)
    make(checkout, "run")

    assert installs(checkout) == 0


def test_a_run_prints_its_address_and_a_curl_for_the_port_it_is_given(checkout: Path) -> None:
    printed = make(checkout, "run", "PORT=8123")

    assert "http://127.0.0.1:8123/fit?model=" in printed
    assert "curl -s http://127.0.0.1:8123/fit" in printed


def test_help_lists_every_command() -> None:
    text = (ROOT / "Makefile").read_text()
    declared = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    listed = re.findall(r"^  make (\S+)", make(ROOT, "help"), re.MULTILINE)

    assert declared is not None
    assert listed == declared[1].split()


def test_no_recipe_is_longer_than_five_lines() -> None:
    recipes = re.findall(r"(?:^\t.*\n)+", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert max(recipe.count("\n\t") + 1 for recipe in recipes) <= 5


def test_ci_runs_what_a_person_runs() -> None:
    script = ROOT / ".ci" / "run"
    commands = [line for line in script.read_text().splitlines() if line and not line.startswith(("#", "set ", "cd "))]

    assert os.access(script, os.X_OK)
    assert commands == ["exec make test"]
