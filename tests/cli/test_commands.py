import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from service import __version__, cli, cli_shared
from service.storage.migrations import head_revision
from tests.storage.catalog_folder import CatalogFolder

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> CatalogFolder:
    return CatalogFolder(tmp_path / "catalog").gpu("a100").model("later", config={"model_type": "of-tomorrow"})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command as a shell would, with DATABASE_URL given first."""

    def run_command(database_url: str, *arguments: object) -> Result:
        monkeypatch.setenv("DATABASE_URL", database_url)
        return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])

    return run_command


def test_it_says_its_version(run: Run) -> None:
    assert run("", "--version").output == f"kvquote-server, version {__version__}\n"


def test_help_imports_nothing_that_takes_time() -> None:
    code = "import sys, service.cli; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    modules = subprocess.check_output([sys.executable, "-c", code], text=True)

    heavy = {"alembic", "environs", "flask", "gunicorn", "jsonschema", "marshmallow", "sqlalchemy", "structlog", "yaml"}
    assert [name for name in heavy if f"'{name}'" in modules] == []


def test_every_command_explains_itself() -> None:
    for path in (
        "db upgrade",
        "db current",
        "catalog check",
        "catalog diff",
        "catalog load",
        "openapi",
        "serve",
        "token list",
        "measurements learn",
        "measurements thin",
        "measurements blank-commands",
    ):
        result = CliRunner().invoke(cli.main, [*path.split(), "--help"])

        assert result.exit_code == 0
        assert len(result.output.splitlines()) > 4


def test_an_empty_database_is_migrated(run: Run, empty_database_url: str) -> None:
    before = run(empty_database_url, "db", "current")
    upgraded = run(empty_database_url, "db", "upgrade")
    after = run(empty_database_url, "db", "current")

    assert (before.exit_code, before.output) == (1, f"not migrated (newest is {head_revision()})\n")
    assert (upgraded.exit_code, upgraded.output) == (0, f"The database is at revision {head_revision()}.\n")
    assert (after.exit_code, after.output) == (0, f"{head_revision()} (newest)\n")


def test_an_unknown_revision_is_named(run: Run, empty_database_url: str) -> None:
    result = run(empty_database_url, "db", "upgrade", "nowhere")

    assert result.exit_code == 2
    assert "nowhere" in result.output


def test_a_catalog_is_loaded_and_what_was_done_is_said(run: Run, database_url: str, folder: CatalogFolder) -> None:
    result = run(database_url, "catalog", "load", "--folder", folder.path)

    assert (result.exit_code, result.output.splitlines()) == (
        0,
        [
            "+ model later",
            "+ gpu a100",
            "1 models wait for a reader of their 1 architectures (see catalog check).",
            "Catalog revision 1: 2 created, 0 changed, 0 deleted, 0 unchanged.",
        ],
    )


def test_a_dry_run_says_that_nothing_was_written(run: Run, database_url: str, folder: CatalogFolder) -> None:
    result = run(database_url, "catalog", "load", "--dry-run", "--folder", folder.path)

    assert result.output.splitlines()[-2:] == [
        "Catalog revision 0: 2 created, 0 changed, 0 deleted, 0 unchanged.",
        "Nothing was written.",
    ]


def test_a_diff_ends_with_1_where_something_differs(run: Run, database_url: str, folder: CatalogFolder) -> None:
    different = run(database_url, "catalog", "diff", "--folder", folder.path)
    run(database_url, "catalog", "load", "--folder", folder.path)
    same = run(database_url, "catalog", "diff", "--folder", folder.path)

    assert (different.exit_code, same.exit_code) == (1, 0)


def test_a_long_load_shows_the_beginning_and_a_diff_all(run: Run, database_url: str, folder: CatalogFolder) -> None:
    for number in range(60):
        folder.gpu(f"gpu-{number}")

    diff = run(database_url, "catalog", "diff", "--folder", folder.path)
    load = run(database_url, "catalog", "load", "--folder", folder.path)

    assert sum(line.startswith("+") for line in diff.output.splitlines()) == 62
    assert sum(line.startswith("+") for line in load.output.splitlines()) == 40
    assert "… and 22 more lines" in load.output


def test_an_edit_of_somebody_else_is_shown_as_kept(run: Run, database_url: str, folder: CatalogFolder) -> None:
    from service.storage.database import make_engine
    from tests.storage.entries import gpu_change, store

    engine = make_engine(database_url)
    store(engine, gpu_change("a100", name="edited"), origin="api")
    engine.dispose()

    result = run(database_url, "catalog", "load", "--folder", folder.path)

    lines = result.output.splitlines()
    at = lines.index("kept as it is: gpu a100: changed by api in revision 1")
    assert lines[at + 1] == '    name: "edited" -> "A100"'
    assert "catalog load --overwrite would take the files' word instead." in lines


def test_the_files_win_where_that_is_asked_for(run: Run, database_url: str, folder: CatalogFolder) -> None:
    from service.storage.database import make_engine
    from tests.storage.entries import gpu_change, store

    engine = make_engine(database_url)
    store(engine, gpu_change("a100", name="edited"), origin="api")
    engine.dispose()

    result = run(database_url, "catalog", "load", "--overwrite", "--folder", folder.path)

    assert '    name: "edited" -> "A100"' in result.output
    assert "kept as it is" not in result.output


def test_a_check_needs_no_database_and_lists_who_waits(run: Run, folder: CatalogFolder) -> None:
    result = run("sqlite:////nowhere/at/all.db", "catalog", "check", "--folder", folder.path)

    assert (result.exit_code, result.output.splitlines()) == (
        0,
        ["2 entries, all well-formed.", "1 wait for a reader of of-tomorrow: later"],
    )


def test_a_check_names_every_problem(run: Run, folder: CatalogFolder) -> None:
    folder.gpu("bad", advertised_bytes=0).gpu("worse", id="other")

    result = run("", "catalog", "check", "--folder", folder.path)

    assert result.exit_code == 2
    assert "gpus/bad.yaml at /memory/advertised_bytes" in result.output
    assert "gpus/worse.yaml at /id" in result.output


def test_the_catalog_of_the_service_itself_is_well_formed(run: Run) -> None:
    assert run("", "catalog", "check").exit_code == 0


@pytest.mark.parametrize("command", ["db current", "db upgrade", "catalog diff", "catalog load"])
@pytest.mark.parametrize(
    "url, complaint",
    [
        ("mysql://localhost/kvquote", "DATABASE_URL: Must begin with sqlite:/// or postgresql://."),
        ("sqlite:///:memory:", "SQLite in memory is not shared"),
        ("sqlite:////nowhere/at/all.db", "The database cannot be used: unable to open database file."),
        ("postgresql://127.0.0.1:1/kvquote", "The database cannot be used: connection failed"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line(
    run: Run, folder: CatalogFolder, command: str, url: str, complaint: str
) -> None:
    arguments = [*command.split(), *(["--folder", folder.path] if command.startswith("catalog") else [])]

    result = run(url, *arguments)

    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert complaint in result.output


@pytest.mark.parametrize(
    "command", ["catalog load", "measurements learn", "measurements blank-commands", "measurements thin --days 1"]
)
def test_a_database_without_tables_says_how_to_make_them(
    run: Run, empty_database_url: str, folder: CatalogFolder, command: str
) -> None:
    arguments = [*command.split(), *(["--folder", folder.path] if command.startswith("catalog") else [])]

    result = run(empty_database_url, *arguments)

    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert result.output.rstrip().endswith("Has it been migrated? Run: kvquote-server db upgrade")


@pytest.mark.parametrize(
    "command, code", [("token list", 2), ("db current", 1), ("catalog diff", 2), ("measurements distrusted", 2)]
)
def test_a_command_in_another_folder_leaves_no_database_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run("sqlite:///kvquote.db", *command.split())

    assert result.exit_code == code
    assert command == "db current" or "there is no file kvquote.db; DATABASE_URL names another." in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_ours_keeps_its_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("service.storage.catalog_files.read_catalog_files", fail)

    assert isinstance(run("", "catalog", "check").exception, ZeroDivisionError)


def test_a_user_without_a_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", nameless)

    assert cli_shared.user() == f"uid {os.getuid()}"


def test_the_description_of_the_api_is_printed(run: Run, database_url: str) -> None:
    printed = json.loads(run(database_url, "openapi").output)

    assert printed["openapi"].startswith("3.1")
    assert "/fit" in printed["paths"]


def test_serving_becomes_gunicorn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: calls.append(arguments))

    run("sqlite:///x.db", "serve", "--workers", "3")

    ((python, *arguments),) = calls
    configuration = str(Path(cli.__file__).with_name("gunicorn.conf.py"))
    assert python == sys.executable
    assert arguments == ["-m", "gunicorn", "service.wsgi:app", "-c", configuration, "--workers", "3"]


def test_serving_with_a_wrong_setting_starts_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(os, "execv", lambda *call: calls.append(call))
    monkeypatch.setenv("PORT", "eight")

    result = run("sqlite:///x.db", "serve")

    assert (result.exit_code, calls) == (2, [])
    assert "PORT" in result.output


def test_an_address_that_is_taken_is_told_before_anything_is_set_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("PORT", str(taken.getsockname()[1]))
        refused = run(f"sqlite:///{tmp_path / 'k.db'}", "serve", "--check")
    free = run(f"sqlite:///{tmp_path / 'k.db'}", "serve", "--check")

    assert (refused.exit_code, free.exit_code, free.output) == (2, 0, "")
    assert "PORT=... names another port" in refused.output
