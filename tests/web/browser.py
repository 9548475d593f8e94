"""`/docs` in a real browser: `make test-browser`, which needs Chromium installed. `make test` does not collect this.

No driver library: Chromium prints the page as its scripts left it, what they complained of, and what it asked the net.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.api.gunicorn_server import gunicorn

if TYPE_CHECKING:
    from tests.databases import Databases

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--virtual-time-budget=20000",
    "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


@dataclass(frozen=True, slots=True)
class Visit:
    """What a browser made of a page: its elements, its console, and the addresses that the page asked for."""

    host: str
    elements: str
    console: list[str]
    asked: list[str]


def chromium() -> str:
    found = [path for path in map(shutil.which, NAMES) if path]
    if not found:
        raise FileNotFoundError("These tests need Chromium: apt-get install chromium, or the like.")
    return found[0]


def visited(address: str, folder: Path) -> Visit:
    log = folder / "net.json"
    command = [chromium(), *OPTIONS, f"--user-data-dir={folder}/profile", f"--log-net-log={log}", "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    host = re.match(r"https?://[^/]+", address)
    assert host is not None
    return Visit(host[0], done.stdout, re.findall(r"CONSOLE.*", done.stderr), asked_by(host[0], log))


def asked_by(host: str, log: Path) -> list[str]:
    """Requests that pages of `host` began; the browser's own errands are not the page's."""
    events = (event.get("params", {}) for event in json.loads(log.read_text(encoding="utf-8"))["events"])
    return [params["url"] for params in events if params.get("initiator") == host and "url" in params]


@pytest.fixture(scope="module")
def visit(sqlite: "Databases", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    folder = tmp_path_factory.mktemp("browser")
    with sqlite.migrated() as url, gunicorn(url, folder / "server.log", KVQUOTE_WORKERS="1") as server:
        yield visited(f"http://127.0.0.1:{server.port}/docs", folder)


def test_the_page_shows_every_operation(visit: Visit) -> None:
    shown = set(re.findall(r'id="operations-[\w-]+-((?:get|post|put|delete)\w+)"', visit.elements))

    assert {"getFit", "postFit", "getTraffic", "postTraffic", "getLiveness"} <= shown


def test_the_page_asked_this_host_and_no_other(visit: Visit) -> None:
    assert f"{visit.host}/openapi.json" in visit.asked
    assert [address for address in visit.asked if not address.startswith(f"{visit.host}/")] == []


def test_neither_a_script_nor_the_policy_complained(visit: Visit) -> None:
    assert visit.console == []
