"""The examples for fleets: files that their schedulers read, with commands that the probe has."""

import shlex
import subprocess
import sys
from argparse import Namespace
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvquote_probe import __version__
from kvquote_probe.cli.codes import Code
from kvquote_probe.cli.words import Words
from kvquote_probe.commands import Share
from kvquote_probe.engine.command import ENGINE
from tests.clients.probe.drills import command, two

DEPLOY = Path(__file__).parents[3] / "clients" / "deploy"
UNITS = sorted(DEPLOY.glob("systemd/*.service"))
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
JOBS = [path for path in MANIFESTS if path.stem != "spool"]
RETRIED = {Code.LATER, Code.PARTLY}


def asked_for(words: list[str]) -> Namespace:
    """What the probe makes of a command; ends the test where it makes nothing of it."""
    known = Words({"two": command("two", two), ENGINE.name: ENGINE}, [Share("two", 1.0)])
    return known.parsed(words)[0]


def unit(path: Path) -> ConfigParser:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names of units keep their case
    parser.read(path)
    return parser


def job(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    spec: dict[str, Any] = document["spec"]["jobTemplate"]["spec"]
    return spec


def container(path: Path) -> dict[str, Any]:
    (found,) = job(path)["template"]["spec"]["containers"]
    made: dict[str, Any] = found
    return made


def test_every_manifest_is_valid() -> None:
    validate = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run([validate, "--strict", *MANIFESTS], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert [path for path in MANIFESTS if f"INFO {path} passed" not in done.stdout + done.stderr] == []


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_job_runs_a_command_that_there_is_within_its_time(path: Path) -> None:
    program, *words = container(path)["command"]
    args = asked_for(words)

    assert program == "kvquote-probe"
    assert str(args.spool) in {mount["mountPath"] for mount in container(path)["volumeMounts"]}
    assert job(path)["activeDeadlineSeconds"] > (args.budget or 60) + args.patience
    assert container(path)["image"] == f"kvquote-probe:{__version__}"


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_job_is_confined_and_never_runs_twice_at_once(path: Path) -> None:
    pod, confined = job(path)["template"]["spec"], container(path)["securityContext"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert confined["readOnlyRootFilesystem"] is True
    assert confined["capabilities"] == {"drop": ["ALL"]}
    assert yaml.safe_load(path.read_text())["spec"]["concurrencyPolicy"] == "Forbid"


def test_a_job_is_tried_again_only_where_that_may_help() -> None:
    (measure,) = (path for path in JOBS if path.stem == "measure")
    given_up = set(job(measure)["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"])

    assert given_up == {int(code) for code in Code} - {int(code) for code in RETRIED} - {0}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_a_command_that_there_is_within_its_time(path: Path) -> None:
    service = unit(path)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    args = asked_for(words)

    assert Path(program).name == "kvquote-probe"
    assert int(service["TimeoutStartSec"]) > getattr(args, "budget", 0) + args.patience
    assert f"{service['Environment'].partition('=')[2]}/{service['StateDirectory']}" == "/var/lib/kvquote"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_what_a_unit_takes_for_success_needs_nobody(path: Path) -> None:
    assert {int(code) for code in unit(path)["Service"]["SuccessExitStatus"].split()} <= {int(code) for code in RETRIED}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_each_unit_has_a_timer_that_spreads_the_fleet(path: Path) -> None:
    timer = unit(path.with_suffix(".timer"))

    assert timer["Timer"]["RandomizedDelaySec"]
    assert timer["Install"]["WantedBy"] == "timers.target"
