"""The README says what is there: settings, metrics, endpoints, commands, and figures that come out."""

import json
import re
import shlex
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from kvquote_client.cli import main
from tests.clients.serving import served

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CLIENTS = (ROOT / "clients" / "README.md").read_text(encoding="utf-8")


def anchor(heading: str) -> str:
    """Where a link to a heading leads, as the pages that render Markdown name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_contents_lead_to_every_part_in_its_order() -> None:
    parts = re.findall(r"^## (.+)$", README, re.MULTILINE)
    contents = README[README.index("On this page: ") : README.index("## Run it")]
    assert re.findall(r"\[([^]]+)\]\(#([^)]+)\)", contents) == [(part, anchor(part)) for part in parts]


@pytest.mark.parametrize("page", [README, CLIENTS], ids=["service", "clients"])
def test_every_link_within_a_page_leads_to_a_heading(page: str) -> None:
    headings = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= headings


def test_every_setting_has_a_row_and_no_row_is_for_nothing() -> None:
    rows = set(re.findall(r"^\| `([A-Z_]+)` \|", README, re.MULTILINE))
    read = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', (ROOT / "service" / "settings.py").read_text()))
    assert rows == read


def test_every_metric_is_named(client: FlaskClient) -> None:
    client.get("/fit?model=llama-2-7b&memory_bytes=80000000000")
    names = set(re.findall(r"^# TYPE (kvquote_\w+)", client.get("/metrics").text, re.MULTILINE))
    assert names
    assert not {name for name in names if name.removesuffix("_created") not in README}


def test_every_endpoint_is_named(app: Flask) -> None:
    """The catalog's kinds are addressed alike: the README writes them out for models and names the others."""
    paths = {rule.rule for rule in app.url_map.iter_rules() if rule.endpoint != "static"}
    kinds = re.compile("^/(gpus|instances|dtypes|engines)(?=/)")
    assert not {path for path in paths if kinds.sub("/models", path) not in README}


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"[`$] ?make ([a-z]+)\b", README)) <= targets


@pytest.mark.parametrize(
    "path", re.findall(r"\]\(((?!http)[\w/.-]+)\)|`((?:service|clients|catalog|tests)/[\w/.-]+)`", README)
)
def test_every_file_that_is_named_exists(path: tuple[str, str]) -> None:
    assert (ROOT / (path[0] or path[1])).exists()


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m (tests[\w.]+)", README + CLIENTS))))
def test_every_module_that_is_run_exists(module: str) -> None:
    path = ROOT / module.replace(".", "/")
    assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def test_the_example_comes_out_as_printed(client: FlaskClient) -> None:
    address = re.search(r"curl -s 'http://127.0.0.1:8000([^']+)'", README)
    assert address
    answer = client.get(address[1]).get_json()
    assert (answer["fits"], answer["max_sequences"], answer["kv_bytes_per_token"]) == (True, 28, 524288)
    printed = README[README.index("```console") : README.index("## Run it")]
    for line in answer["derivation"]:
        assert json.dumps(line) in printed
    for part in answer["ledger"]["parts"]:
        assert f'{{"name": "{part["name"]}", "bytes": {part["bytes"]},' in printed
    assert json.dumps(answer["levers"][0]) in printed


@pytest.mark.parametrize("path", re.findall(r"`(/(?:fit|traffic)\?[^`]+)`", README))
def test_every_question_that_is_shown_is_answered(client: FlaskClient, path: str) -> None:
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("shown", re.findall(r"^\$ (kvquote fit .*)\n((?:(?!\$ |…).*\n)+)…$", CLIENTS, re.MULTILINE))
def test_what_the_command_line_is_shown_to_print_is_what_it_prints(
    shown: tuple[str, str], app: Flask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with served(app) as url:
        monkeypatch.setenv("KVQUOTE_URL", url)
        assert main(shlex.split(shown[0])[1:]) == 0

    printed = [line for line in capsys.readouterr().out.splitlines() if '"http_request"' not in line]
    lines = shown[1].splitlines()
    assert printed[: len(lines)] == lines
