"""`as_of`: the catalog and what is quoted from it as they were at a time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from threading import get_ident
from typing import Any

import pytest
from sqlalchemy import event, update

from service.api.services import services_of
from service.storage.database import writing
from service.storage.tables import CATALOG_REVISION
from tests.api.asking import pointers, problem
from tests.api.desk import Desk

QUESTION = {"model": "llama-2-7b", "gpu": "a10", "context_tokens": 4096}
FIRST, SECOND, THIRD = (f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3))


@pytest.fixture
def edited(desk: Desk) -> Desk:
    """Revision 1 of January 1st has an a10 of 24 GB, 2 of 48 GB, 3 none but a new card."""
    facts, tag = desk.read("/gpus/a10")
    desk.put("/gpus/a10", {**facts, "memory": {**facts["memory"], "advertised_bytes": 48_000_000_000}}, if_match=tag)
    desk.delete("/gpus/a10")
    desk.create("/gpus/my-card")
    with writing(services_of(desk.app).engine) as connection:
        for revision in range(1, 5):
            made_at = datetime(2026, 1, min(revision, 3), tzinfo=UTC)
            connection.execute(
                update(CATALOG_REVISION).where(CATALOG_REVISION.c.id == revision).values(made_at=made_at)
            )
    return desk


def asked(desk: Desk, path: str, as_of: str, **names: object) -> Any:  # noqa: ANN401  # JSON
    response = desk.client.get(path, query_string={**names, "as_of": as_of})
    assert response.status_code == 200, response.text
    return response.get_json()


@pytest.mark.parametrize("as_of, revision, memory_bytes", [(FIRST, 1, 24_000_000_000), (SECOND, 2, 48_000_000_000)])
@pytest.mark.parametrize("path", ["/fit", "/traffic"])
def test_a_quote_is_what_it_was(edited: Desk, path: str, as_of: str, revision: int, memory_bytes: int) -> None:
    answer = asked(edited, path, as_of, **QUESTION)

    assert (answer["catalog_revision"], answer["gpu"]["revision"]) == (revision, revision)
    assert answer["question"]["memory_bytes"] == memory_bytes
    assert (answer["question"]["as_of"], answer["taken"]["as_of"]) == (as_of, "request")


def test_a_post_is_answered_as_the_get_is(edited: Desk) -> None:
    got = edited.client.get("/fit", query_string={**QUESTION, "as_of": FIRST})

    assert edited.client.post("/fit", json={**QUESTION, "as_of": FIRST}).data == got.data


def test_an_offset_that_lost_its_plus_in_the_address_is_told_so(edited: Desk) -> None:
    answer = problem(edited.client.get("/gpus/a10?as_of=2026-01-02T01:30:00+02:00"), 422, "validation-error")
    other = problem(edited.client.get("/gpus/a10?as_of=2026-01-02 01:30:00"), 422, "validation-error")

    assert ("%2B" in answer["detail"], "%2B" in other["detail"]) == (True, False)


def test_an_offset_is_counted(edited: Desk) -> None:
    answer = asked(edited, "/fit", "2026-01-02T01:30:00+02:00", **QUESTION)

    assert (answer["catalog_revision"], answer["question"]["as_of"]) == (1, "2026-01-01T23:30:00Z")


def test_what_came_later_is_not_known_then_and_what_went_is(edited: Desk) -> None:
    problem(edited.client.get("/fit", query_string={**QUESTION, "gpu": "my-card", "as_of": FIRST}), 422, "unknown-gpu")
    problem(edited.client.get("/fit", query_string=QUESTION), 422, "unknown-gpu")
    problem(edited.client.get("/gpus/my-card", query_string={"as_of": FIRST}), 404, "unknown-gpu")
    assert asked(edited, "/gpus/a10", SECOND)["memory_bytes"] == 48_000_000_000


def test_a_list_is_what_it_was(edited: Desk) -> None:
    then = asked(edited, "/gpus", FIRST, mig="false", min_memory_bytes="24e9", max_memory_bytes="24e9")
    now = edited.client.get("/gpus?mig=false&min_memory_bytes=24e9&max_memory_bytes=24e9").get_json()

    assert [item["id"] for item in then["items"]] == ["a10", "a10g"]
    assert [item["id"] for item in now["items"]] == ["a10g", "my-card"]
    assert (then["catalog_revision"], now["catalog_revision"]) == (1, 4)


def test_pages_of_the_past_go_on_in_the_past(edited: Desk) -> None:
    first = asked(edited, "/gpus", FIRST, limit=1)
    second = asked(edited, "/gpus", FIRST, limit=1, cursor=first["next_cursor"])

    assert [page["items"][0]["id"] for page in (first, second)] == ["a10", "a100-sxm-80gb"]
    other = edited.client.get("/gpus", query_string={"as_of": SECOND, "limit": 1, "cursor": first["next_cursor"]})
    assert pointers(problem(other, 422, "validation-error")) == ["/cursor"]


def test_the_tag_of_the_past_stays(edited: Desk) -> None:
    tags = [
        edited.client.get(path, query_string={**query, "as_of": FIRST}).headers["ETag"]
        for path, query in (("/fit", QUESTION), ("/gpus", {}), ("/gpus/a10", {}))
    ]
    edited.create("/gpus/another-card")

    for (path, query), tag in zip((("/fit", QUESTION), ("/gpus", {}), ("/gpus/a10", {})), tags, strict=True):
        again = edited.client.get(path, query_string={**query, "as_of": FIRST}, headers={"If-None-Match": tag})
        assert again.status_code == 304


def test_a_former_state_is_no_condition_for_a_change(edited: Desk) -> None:
    former = edited.client.get("/gpus/a10g", query_string={"as_of": FIRST}).headers["ETag"]
    edited.change("/gpus/a10g", name="renamed")

    assert edited.client.get("/gpus/a10g", query_string={"as_of": FIRST}).headers["ETag"] == former
    problem(edited.delete("/gpus/a10g", former), 412, "precondition-failed")


def test_now_is_the_present(edited: Desk) -> None:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")

    assert asked(edited, "/gpus", now)["catalog_revision"] == 4


@pytest.mark.parametrize("path", ["/fit", "/traffic", "/gpus", "/gpus/a10"])
@pytest.mark.parametrize(
    "as_of, words",
    [
        ("9999-12-31T23:59:59Z", "is in the future"),
        ("2025-12-31T23:59:59Z", "it begins at 2026-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", "it begins at 2026-01-01T00:00:00Z"),
    ],
)
def test_a_time_without_a_catalog_is_refused(edited: Desk, path: str, as_of: str, words: str) -> None:
    names = QUESTION if path in {"/fit", "/traffic"} else {}

    found = problem(edited.client.get(path, query_string={**names, "as_of": as_of}), 422, "validation-error")

    assert pointers(found) == ["/as_of"]
    assert words in found["detail"]


@pytest.mark.parametrize(
    "as_of",
    ["2026-01-01", "2026-01-01T00:00:00", "1735689600", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "now", ""],
)
def test_what_is_no_time_is_refused(edited: Desk, as_of: str) -> None:
    for path in ("/gpus", "/gpus/a10"):
        response = edited.client.get(path, query_string={"as_of": as_of})
        assert pointers(problem(response, 422, "validation-error")) == ["/as_of"]


@pytest.fixture
def statements(edited: Desk) -> Iterator[list[str]]:
    """Every query that this thread makes from now on."""
    seen: list[str] = []
    answering = get_ident()

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if get_ident() == answering and statement.lstrip().startswith("SELECT"):
            seen.append(statement)

    engine = services_of(edited.app).engine
    event.listen(engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine, "before_cursor_execute", note)


def test_the_past_costs_one_row_once_it_was_asked_for(edited: Desk, statements: list[str]) -> None:
    asked(edited, "/fit", FIRST, **QUESTION)
    statements.clear()

    asked(edited, "/fit", FIRST, **QUESTION)

    assert len(statements) == 1
    assert "catalog_revision" in statements[0]


def test_the_present_costs_no_sql(edited: Desk, statements: list[str]) -> None:
    for path in ("/fit?model=llama-2-7b&gpu=a10g", "/gpus?vendor=nvidia", "/gpus/a10g", "/models?q=llama"):
        assert edited.client.get(path).status_code == 200

    assert statements == []
