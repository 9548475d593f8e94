"""The Dockerfile: well-formed, and in step with the repository it is built from."""

import importlib.util
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

from tests.tooling.dockerfile import environment, exec_form, instructions, named
from tests.tooling.repository import ROOT, pyproject


def copied_from_the_repository() -> list[str]:
    rests = [each.rest for each in named("COPY") if not each.rest.startswith("--from")]
    return [source for rest in rests for source in rest.split()[:-1]]


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    found = subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert found.stdout + found.stderr == ""


def test_what_it_copies_is_there() -> None:
    assert [source for source in copied_from_the_repository() if not (ROOT / source).exists()] == []


def test_what_it_copies_is_sent_to_the_build() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]

    assert [
        s for s in copied_from_the_repository() if not any(fnmatch(s.split("/")[0], each) for each in allowed)
    ] == []


def test_everything_that_is_installed_from_an_index_is_hash_locked() -> None:
    steps = [step for each in named("RUN") for step in each.rest.split("&&") if " install " in step and "pip" in step]

    assert steps
    assert [step for step in steps if "--require-hashes" not in step and "--no-index" not in step] == []


def test_it_runs_as_a_numbered_user_who_is_not_root() -> None:
    (user,) = named("USER")
    uid, gid = user.rest.split(":")

    assert user.stage == instructions()[-1].stage
    assert int(uid) > 0
    assert int(gid) > 0


def test_it_starts_the_command_that_the_package_installs() -> None:
    (entrypoint,) = named("ENTRYPOINT")
    (command,) = named("CMD")

    assert exec_form(entrypoint.rest)[0] in pyproject()["project"]["scripts"]
    assert exec_form(command.rest) == ["serve"]


def test_its_health_check_is_a_module_of_the_package() -> None:
    (check,) = named("HEALTHCHECK")
    python, option, module = exec_form(check.rest)

    assert (python, option) == ("python", "-m")
    assert importlib.util.find_spec(module) is not None


def test_the_embedded_database_lies_on_the_volume() -> None:
    (volume,) = named("VOLUME")

    assert environment()["DATABASE_URL"].startswith(f"sqlite:///{exec_form(volume.rest)[0]}/")


def test_it_needs_no_download_tool() -> None:
    assert [each.rest for each in instructions() if "curl" in each.rest or "wget" in each.rest] == []
