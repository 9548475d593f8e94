"""Processes as an installed service runs them: with byte code, as pip leaves it, and without what only development has.

A library that finds another one installed imports it: structlog takes rich along, which production has not. And where
`PYTHONDONTWRITEBYTECODE` is set, as in many containers that tests run in, each process would compile all that it
imports: three times the CPU of an import, which is of the machine and not of the service.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LOCK = ROOT / "service" / "deploy" / "requirements.txt"
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_OWN = frozenset({"service", "tests", "kvquote_client", "kvquote_probe"})
# What configures Python or the service, wherever the benchmark is started.
_UNSET = (
    *("HOST", "PORT", "DATABASE_URL", "PROMETHEUS_MULTIPROC_DIR", "WEB_CONCURRENCY", "GUNICORN_CMD_ARGS"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "PYTHONSTARTUP"),
)
_COMPILED = (
    "import service.preloading, service.resources, service.cli, gunicorn.workers.gthread, gunicorn.app.wsgiapp;"
    "import tests.benchmarks.bare_flask, tests.benchmarks.bare_libraries, tests.benchmarks.bare_wsgi;"
    "service.preloading.import_rest()"
)
# An entry of None in sys.modules would do for imports, but libraries look there for what others may have loaded.
_HIDING = """
import sys
class Hidden:
    names = frozenset("{names}".split())
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in cls.names:
            raise ModuleNotFoundError(name + " is not installed in production", name=name)
sys.meta_path.insert(0, Hidden)
"""
_LONGEST_SECONDS = 120


def environment() -> dict[str, str]:
    """This process's environment without what configures the service, and with byte code that is written already."""
    return {**_plain(), "PYTHONPYCACHEPREFIX": _byte_code().name}


def python(code: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command that runs some code and finds only what production has installed."""
    return [sys.executable, "-c", _HIDING.format(names=" ".join(_hidden())) + code, *arguments]


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _UNSET and not name.startswith("KVQUOTE_")}


@cache
def _byte_code() -> "tempfile.TemporaryDirectory[str]":
    """A folder of this run, filled with what servers import: the first one would otherwise pay for all."""
    folder = tempfile.TemporaryDirectory(prefix="kvquote-bytecode-")
    settings = {**_plain(), "PYTHONPYCACHEPREFIX": folder.name, "DATABASE_URL": "sqlite:///none.db"}
    subprocess.run(python(_COMPILED), cwd=ROOT, env=settings, check=True, timeout=_LONGEST_SECONDS)
    return folder


@cache
def _hidden() -> tuple[str, ...]:
    """Top-level modules that are installed here, and not by the lock file of production."""
    locked = {_normal(name) for name in _LOCKED.findall(_LOCK.read_text())}
    installed = packages_distributions()
    return tuple(
        sorted(
            module
            for module, owners in installed.items()
            if module.isidentifier() and module not in _OWN and not locked & {_normal(owner) for owner in owners}
        )
    )


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
