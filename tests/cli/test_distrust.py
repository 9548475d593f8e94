"""`kvquote-server measurements distrust`: rows stay and are seen, nothing learns from them, and the past stands."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select, update

from service import cli
from service.api.services import services_of
from service.domain.trust import Decision, Sender
from service.storage import trust_decisions
from service.storage.database import make_engine, writing
from service.storage.learning_news import has_news
from service.storage.measurement_tables import LEARNING_SAMPLE
from service.storage.tables import API_TOKEN, AUDIT_EVENT
from tests.api.desk import bearer
from tests.api.probing import verdicts
from tests.api.school import School, new_school
from tests.fleet import GIB, H100, capacity_row, fleet, memory_row, probe_id

Run = Callable[..., Result]
LIES = [capacity_row(99, 30.0 * GIB, number=number) for number in range(4)]
WHY = "Its probe is not trusted: its clock is a toy"


@pytest.fixture
def own_school(database_url: str) -> Iterator[School]:
    with new_school(database_url) as school:
        yield school


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, database_url: str, own_school: School) -> Run:
    monkeypatch.setenv("DATABASE_URL", database_url)

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(cli.main, ["measurements", *arguments])
        services_of(own_school.lab.app).keeper.refresh()
        return result

    return run


def distrust(run: Run, *more: str, probe: int = 99) -> Result:
    return run("distrust", "--probe", probe_id(probe), "--reason", "its clock is a toy", *more)


def stable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in {"question", "taken", "calibration_revision"}}


def probe(school: School, number: int) -> dict[str, Any]:
    (found,) = [p for p in school.got("/probes")["items"] if p["probe_id"] == probe_id(number)]
    return dict(found)


def small_fleet() -> list[dict[str, Any]]:
    """So few that one more probe is heard."""
    return list(fleet(1.0 * GIB, nodes=3))


def test_its_rows_stay_and_say_why(own_school: School, run: Run) -> None:
    own_school.teach([*small_fleet(), *LIES])

    assert distrust(run).exit_code == 0

    rows = own_school.lab.listed(f"probe_id={probe_id(99)}")
    assert [(row["verdict"], row["detail"]) for row in rows] == [("quarantined", WHY)] * 4
    assert {row["id"] for row in own_school.lab.listed("verdict=quarantined")} == {row["id"] for row in LIES}
    assert own_school.lab.stored() == 7
    shown = probe(own_school, 99)
    assert (shown["accepted"], shown["quarantined"], shown["accepted_share"]) == (0, 4, 0)
    assert (shown["distrusted"], shown["distrusted_since"]) == (True, None)
    assert shown["distrust_reason"] == "its clock is a toy"
    assert probe(own_school, 1)["distrusted"] is False


def test_what_was_learned_is_as_if_it_had_never_reported(own_school: School, run: Run) -> None:
    own_school.teach(small_fleet())
    before, accuracy = own_school.fit(), own_school.got("/accuracy")
    values = [{**value, "revision": 0, "known_from": ""} for value in own_school.values()]
    own_school.teach(LIES)
    misled = own_school.fit()
    assert stable(misled) != stable(before)

    distrust(run)

    assert stable(own_school.fit()) == stable(before)
    assert own_school.got("/accuracy") == accuracy
    assert [{**value, "revision": 0, "known_from": ""} for value in own_school.values()] == values


def test_answers_as_of_before_the_decision_stand(own_school: School, run: Run) -> None:
    own_school.teach([*small_fleet(), *LIES])
    misled, then = own_school.fit(), datetime.now(UTC)
    time.sleep(0.01)

    distrust(run)

    asked = own_school.fit(f"&as_of={then.isoformat().replace('+00:00', 'Z')}")
    assert stable(asked) == stable(misled)
    assert stable(own_school.fit()) != stable(misled)


def test_what_it_sends_afterwards_is_answered_and_kept(own_school: School, run: Run) -> None:
    own_school.teach([*small_fleet(), *LIES])
    distrust(run)
    new, unknown = capacity_row(99, 30.0 * GIB, number=7), memory_row(99, 80 << 30, gpu="RTX 9090")

    answer = own_school.lab.upload(LIES[0], {**LIES[1], "values": {"kv_cache_bytes": 1 << 34}}, new, unknown)
    again = own_school.lab.upload(new)
    own_school.learn()

    assert verdicts(answer) == ["duplicate", "conflict", "quarantined", "quarantined"]
    assert answer.get_json()["items"][2]["detail"] == WHY
    assert verdicts(again) == ["duplicate"]
    assert own_school.lab.stored() == 9
    with services_of(own_school.lab.app).engine.connect() as connection:
        assert {str(found) for found in connection.scalars(select(LEARNING_SAMPLE.c.probe_id))} == {
            probe_id(number) for number in range(1, 4)
        }


def test_a_worker_that_has_not_heard_of_it_judges_again(own_school: School) -> None:
    own_school.teach(LIES)
    having = services_of(own_school.lab.app)
    change = trust_decisions.Change(Sender.PROBE, probe_id(99), Decision(None, "its clock is a toy"), "tests")
    trust_decisions.decide(having.engine, change)
    assert having.keeper.current().distrust.revision == 0

    answer = own_school.lab.upload(capacity_row(99, 30.0 * GIB, number=7))

    assert verdicts(answer) == ["quarantined"]


def test_until_stored_rows_have_followed_they_are_found_by_what_they_are_taken_for(
    own_school: School, run: Run
) -> None:
    own_school.teach([*small_fleet(), *LIES])
    having = services_of(own_school.lab.app)
    change = trust_decisions.Change(Sender.PROBE, probe_id(99), Decision(None, "it lies"), "tests")
    trust_decisions.decide(having.engine, change)
    having.keeper.refresh()

    assert len(own_school.lab.listed("verdict=quarantined")) == 4
    assert len(own_school.lab.listed("verdict=accepted")) == 3
    assert has_news(having.engine, having.keeper.current())
    run("learn")
    assert not has_news(having.engine, having.keeper.current())
    assert probe(own_school, 99)["accepted"] == 0


def test_only_rows_that_arrived_since_are_set_aside(own_school: School, run: Run) -> None:
    own_school.teach([*small_fleet(), *LIES[:2]])
    time.sleep(0.01)
    since = datetime.now(UTC)
    own_school.teach(LIES[2:])

    assert distrust(run, "--since", since.isoformat()).exit_code == 0

    shown = probe(own_school, 99)
    assert (shown["accepted"], shown["quarantined"]) == (2, 2)
    assert datetime.fromisoformat(shown["distrusted_since"]) == since
    assert sum(group["measurements"] for group in own_school.got("/accuracy")["items"]) == 5


def test_whom_it_is_undone_for_counts_again(own_school: School, run: Run) -> None:
    own_school.teach([*small_fleet(), *LIES])
    misled, accuracy = own_school.fit(), own_school.got("/accuracy")["items"]
    distrust(run)

    undone = run("distrust", "--probe", probe_id(99), "--undo")

    assert undone.output.startswith(f"The probe {probe_id(99)} is trusted again.\n")
    assert stable(own_school.fit()) == stable(misled)
    (was,), (now,) = accuracy, own_school.got("/accuracy")["items"]
    assert (now["measurements"], now["median_error"]) == (was["measurements"], was["median_error"])
    assert probe(own_school, 99)["accepted"] == 4
    assert "99" not in run("distrusted").output


def test_all_that_came_with_a_token_can_be_set_aside(own_school: School, run: Run) -> None:
    own_school.teach(list(fleet(1.0 * GIB, nodes=5)))
    lab = own_school.lab
    stolen = bearer(lab.app, *_scopes())
    lab.client.post("/measurements", json={"items": LIES}, headers=stolen)
    own_school.learn()
    token = stolen["Authorization"].split("_")[1]

    done = run("distrust", "--token", token, "--reason", "stolen")

    assert done.exit_code == 0, done.output
    assert {row["detail"] for row in lab.listed(f"probe_id={probe_id(99)}")} == {"Its token is not trusted: stolen"}
    assert probe(own_school, 1)["accepted"] == 1
    assert probe(own_school, 99)["distrusted"] is False
    assert sum(group["measurements"] for group in own_school.got("/accuracy")["items"]) == 5
    assert run("distrusted").output == f"token {token}  all rows: stolen\n"


def _scopes() -> list[Any]:
    from service.storage.tokens import Scope

    return [Scope.MEASUREMENTS_WRITE]


def test_rows_that_were_thinned_count_no_more_in_the_accuracy(own_school: School, run: Run) -> None:
    from datetime import timedelta

    from service.storage.thinning import thin

    own_school.teach([*small_fleet(), *(capacity_row(99, 30.0 * GIB, number=number) for number in range(12))])
    assert thin(services_of(own_school.lab.app).engine, timedelta(0)).deleted == 4

    distrust(run)

    assert sum(group["measurements"] for group in own_school.got("/accuracy")["items"]) == 3


def test_a_group_of_its_rows_alone_is_gone(own_school: School, run: Run) -> None:
    own_school.teach(LIES)

    distrust(run)

    assert own_school.got("/accuracy")["items"] == []


def test_millions_of_rows_would_be_taken_in_parts(
    own_school: School, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust_decisions, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(trust_decisions, "_SPAN", 7)
    own_school.teach([*small_fleet(), *(capacity_row(99, 30.0 * GIB, number=number) for number in range(9))])
    own_school.teach(list(fleet(1.0 * GIB, nodes=6, number=3)))

    distrust(run)

    assert probe(own_school, 99)["quarantined"] == 9
    assert probe(own_school, 1)["quarantined"] == 0


def test_a_new_decision_takes_the_place_of_the_old_one(own_school: School, run: Run) -> None:
    own_school.teach(LIES)
    distrust(run)

    distrust(run, "--since", "2020-01-01T00:00:00Z")

    assert run("distrusted").output == f"probe {probe_id(99)}  since 2020-01-01 00:00:00Z: its clock is a toy\n"
    assert probe(own_school, 99)["quarantined"] == 4


def test_it_is_audited(own_school: School, run: Run) -> None:
    own_school.teach(LIES)
    distrust(run, "--since", "2020-01-01T00:00:00Z")
    run("distrust", "--probe", probe_id(99), "--undo")

    with services_of(own_school.lab.app).engine.connect() as connection:
        events = connection.execute(
            select(AUDIT_EVENT.c.action, AUDIT_EVENT.c.subject, AUDIT_EVENT.c.note)
            .where(AUDIT_EVENT.c.action.like("sender.%"))
            .order_by(AUDIT_EVENT.c.id)
        ).all()
    subject = f"probe/{probe_id(99)}"
    assert [tuple(event) for event in events] == [
        ("sender.distrusted", subject, "since 2020-01-01T00:00:00+00:00: its clock is a toy"),
        ("sender.trusted", subject, None),
    ]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((), "Name one sender"),
        (("--probe", probe_id(99), "--token", "x"), "Name one sender"),
        (("--probe", "x", "--reason", "y"), "is a UUID"),
        (("--probe", probe_id(99)), "Say why"),
        (("--probe", probe_id(99), "--reason", "y", "--undo"), "Say why"),
        (("--probe", probe_id(99), "--undo", "--since", "2026-01-01T00:00:00Z"), "Say why"),
        (("--probe", probe_id(99), "--undo"), "trusted already"),
        (("--probe", probe_id(98), "--reason", "y"), "Nobody knows a probe"),
        (("--token", "nobody", "--reason", "y"), "Nobody knows a token"),
        (("--probe", probe_id(99), "--reason", "y", "--since", "yesterday"), "with an offset"),
        (("--probe", probe_id(99), "--reason", "y", "--since", "2026-01-01T00:00:00"), "with an offset"),
        (("--probe", probe_id(99), "--reason", "y", "--since", "2126-01-01T00:00:00Z"), "lies in the future"),
        (("--probe", probe_id(99), "--reason", "y", "--since", "9999-12-31T23:59:59-14:00"), "with an offset"),
        (("--probe", probe_id(99), "--reason", "y", "--since", "0001-01-01T00:00:00+14:00"), "with an offset"),
        (("--probe", probe_id(99), "--reason", "a\nb"), "in one line"),
        (("--probe", probe_id(99), "--reason", "y" * 121), "in one line"),
    ],
)
def test_what_cannot_be_decided_is_refused(
    own_school: School, run: Run, arguments: tuple[str, ...], words: str
) -> None:
    own_school.lab.upload(LIES[0])

    result = run("distrust", *arguments)

    assert (result.exit_code, words in result.output) == (2, True), result.output
    assert own_school.lab.listed()[0]["verdict"] == "accepted"


def test_it_waits_for_a_busy_database_longer_than_an_answer_would(
    database_url: str, own_school: School, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PostgreSQL locks rows alone: there nothing is waited for.
    if database_url.startswith("sqlite"):
        monkeypatch.setenv("KVQUOTE_DATABASE_TIMEOUT_SECONDS", "0.2")
    own_school.teach([*small_fleet(), *LIES])
    engine = make_engine(database_url)
    with ThreadPoolExecutor(1) as others:
        with writing(engine) as connection:
            connection.execute(update(API_TOKEN).values(name="busy"))
            deciding = others.submit(distrust, run)
            time.sleep(1.0)
        result = deciding.result()
    engine.dispose()

    assert result.exit_code == 0, result.output
    assert probe(own_school, 99)["distrusted"] is True


def test_the_same_twice_is_said(own_school: School, run: Run) -> None:
    own_school.lab.upload(LIES[0])
    distrust(run)

    assert "already" in distrust(run).output


def test_a_token_is_named_by_its_public_id(own_school: School, run: Run) -> None:
    with services_of(own_school.lab.app).engine.connect() as connection:
        (token_id,) = connection.scalars(select(API_TOKEN.c.id))
    own_school.lab.upload(memory_row(1, 84_929_347_584, gpu=H100))

    assert run("distrust", "--token", token_id, "--reason", "leaked").exit_code == 0
    assert own_school.lab.listed()[0]["verdict"] == "quarantined"
