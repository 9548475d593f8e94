"""`kvquote-server measurements blank-commands`: what should never have been stored goes, and the measurement stays."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import make_url, select, text, update

from service import cli
from service.api.services import services_of
from service.storage.canonical import sorted_json
from service.storage.measurement_tables import MEASUREMENT
from service.storage.tables import AUDIT_EVENT
from service.storage.uploads import digest_of
from tests.api.probing import opened_lab, verdicts
from tests.api.school import School
from tests.databases import Databases
from tests.fleet import GIB, capacity_row

Run = Callable[..., Result]
SECRET = "sk-0123456789abcdef"  # made up
SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192"
FIELDS = {"model": "meta-llama/Llama-3.1-8B-Instruct", "context_limit_tokens": 8192}


@pytest.fixture
def loaded_url(databases: Databases) -> Iterator[str]:
    with databases.loaded() as url:
        yield url


@pytest.fixture
def school(loaded_url: str) -> Iterator[School]:
    with opened_lab(loaded_url) as lab:
        yield School(lab)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, loaded_url: str, school: School) -> Run:
    monkeypatch.setenv("DATABASE_URL", loaded_url)

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(cli.main, ["measurements", "blank-commands", *arguments])
        services_of(school.lab.app).keeper.refresh()
        return result

    return run


def stored(school: School, command: str, was: str, number: int = 0, **setup: object) -> str:
    """A row that was stored with `command` before such were refused; the id of it."""
    sent = {**capacity_row(1, 1.0 * GIB, number=number), "setup": {"command": was, **setup}}
    school.lab.upload(sent)
    with services_of(school.lab.app).engine.connect() as connection, connection.begin():
        row = connection.execute(select(MEASUREMENT).where(MEASUREMENT.c.id == UUID(sent["id"]))).one()
        content = json.loads(row.content)
        content["setup"]["command"] = command
        columns = {"content": sorted_json(content), "digest": digest_of(sorted_json(content))}
        connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.seq == row.seq).values(columns))
    return str(sent["id"])


def shown(school: School, row_id: str) -> dict[str, Any]:
    return school.got(f"/measurements/{row_id}")


def test_the_command_goes_and_its_fields_stay(school: School, run: Run) -> None:
    row_id = stored(school, f"{SERVE} --api-key {SECRET}", SERVE)
    before = shown(school, row_id)

    result = run()

    assert result.output == "1 commands are gone: 1 rows have their fields instead, 0 were not understood.\n"
    after = shown(school, row_id)
    assert SECRET in str(before)
    assert SECRET not in str(after)
    assert {name: after["setup"].get(name) for name in FIELDS} == FIELDS
    assert "command" not in after["setup"]
    assert (after["verdict"], after["model_id"], after["values"]) == ("accepted", before["model_id"], before["values"])


def test_what_it_teaches_stays(school: School, run: Run) -> None:
    for number in range(6):
        stored(school, f"{SERVE} --api-key {SECRET}", SERVE, number)
    school.learn()
    before = school.values()

    run()
    school.learn()

    assert school.values() == before != []


def test_one_that_nobody_understands_is_dropped(school: School, run: Run) -> None:
    row_id = stored(school, f"python train.py {SECRET}", "python train.py", model="meta-llama/Llama-3.1-8B-Instruct")
    other = stored(school, f"python train.py {SECRET}", "python train.py", 1)

    result = run()

    assert result.output == "2 commands are gone: 0 rows have their fields instead, 2 were not understood.\n"
    assert shown(school, row_id)["setup"] == {"model": "meta-llama/Llama-3.1-8B-Instruct"}
    assert (shown(school, row_id)["verdict"], shown(school, other)["verdict"]) == ("accepted", "unmatched")
    assert SECRET not in str(school.lab.listed())
    assert school.got("/probes")["items"][0]["unmatched"] == 1


def test_what_is_not_private_stays_a_command(school: School, run: Run) -> None:
    row_id = stored(school, SERVE, SERVE)

    assert run().output.startswith("0 commands are gone")
    assert shown(school, row_id)["setup"]["command"] == SERVE


@pytest.mark.parametrize("private", ["--download-dir /home/ada/models", "--host gpu7.example.org", "HF_TOKEN=x"])
def test_paths_and_machines_go_as_keys_do(school: School, run: Run, private: str) -> None:
    command = f"{private} {SERVE}" if private.startswith("HF") else f"{SERVE} {private}"
    row_id = stored(school, command, SERVE)

    run()

    assert private.rsplit(maxsplit=1)[-1] not in str(shown(school, row_id))


def test_a_dry_run_only_counts(school: School, run: Run) -> None:
    row_id = stored(school, f"{SERVE} --api-key {SECRET}", SERVE)

    result = run("--dry-run")

    assert result.output == "1 commands would be gone: 1 rows have their fields instead, 0 were not understood.\n"
    assert SECRET in str(shown(school, row_id))


def test_many_are_taken_in_parts_and_audited(school: School, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.storage.blanking._ROWS_AT_ONCE", 2)
    for number in range(5):
        stored(school, f"{SERVE} --api-key {SECRET}", SERVE, number)

    assert run().output.startswith("5 commands are gone")
    assert run().output.startswith("0 commands are gone")
    with services_of(school.lab.app).engine.connect() as connection:
        notes = connection.scalars(
            select(AUDIT_EVENT.c.note).where(AUDIT_EVENT.c.action == "measurement.blanked")
        ).all()
    # How many a turn takes is a matter of time.
    assert sum(int(note.removesuffix(" commands")) for note in notes if note) == 5
    assert len(notes) >= 3


def test_the_row_without_its_command_is_the_same_row(school: School, run: Run) -> None:
    row_id = stored(school, f"{SERVE} --api-key {SECRET}", SERVE)
    run()
    kept = shown(school, row_id)

    again = {
        name: kept[name] for name in ("id", "probe_id", "kind", "measured_at", "gpu", "software", "setup", "values")
    }

    assert verdicts(school.lab.upload(again)) == ["duplicate"]


def test_no_file_of_the_database_holds_it_any_more(loaded_url: str, school: School, run: Run) -> None:
    if not loaded_url.startswith("sqlite"):
        # There the old row is gone with the next vacuum, which needs nobody.
        return
    stored(school, f"{SERVE} --api-key {SECRET}", SERVE)
    services_of(school.lab.app).engine.dispose()

    run()

    file = Path(make_url(loaded_url).database or "")
    assert [found.name for found in file.parent.glob(f"{file.name}*") if SECRET.encode() in found.read_bytes()] == []
    with services_of(school.lab.app).engine.connect() as connection:
        assert connection.scalar(text("PRAGMA integrity_check")) == "ok"
