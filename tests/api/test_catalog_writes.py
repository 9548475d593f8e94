"""PUT and DELETE on the catalog: conditions, revisions, what speaks against a change, and what it changes."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select

from service.api.services import services_of
from service.storage.database import reading
from service.storage.tables import AUDIT_EVENT
from tests.api.asking import pointers, problem
from tests.api.desk import CARD, MACHINE, MODEL, Desk, bearer, card, opened_desk, stored_facts
from tests.storage.entries import revision

KINDS = ["/gpus/a10", MACHINE, MODEL, "/dtypes/fp8", "/engines/none"]
QUESTION = {"model": "llama-2-7b", "gpu": "a10", "context_tokens": 4096}


def memory(facts: dict[str, Any], **changes: object) -> dict[str, Any]:
    return {**facts, "memory": {**facts["memory"], **changes}}


@pytest.mark.parametrize("path", KINDS)
def test_an_entry_of_every_kind_is_changed(desk: Desk, path: str) -> None:
    former = desk.client.get(path)

    response = desk.change(path, name="renamed")

    assert response.status_code == 200, response.text
    assert (response.get_json()["name"], response.get_json()["revision"]) == ("renamed", 2)
    assert response.headers["ETag"] != former.headers["ETag"]
    again = desk.client.get(path)
    assert again.data == response.data
    assert again.headers["ETag"] == response.headers["ETag"]


@pytest.mark.parametrize("path", KINDS)
def test_an_entry_of_every_kind_is_deleted_and_created_again(desk: Desk, path: str) -> None:
    desk.delete(MACHINE)
    for used in ("/gpus/a100-sxm-80gb-mig-1g-10gb", MODEL, "/models/qwen2-7b-instruct"):
        desk.delete(used)
    facts = stored_facts(path.strip("/"))
    if path not in {MACHINE, MODEL}:
        assert desk.delete(path).status_code == 204

    assert desk.client.get(path).status_code == 404
    response = desk.put(path, facts, if_none_match="*")
    assert (response.status_code, response.headers["Location"]) == (201, path)
    assert desk.client.get(path).data == response.data


@pytest.mark.parametrize("path", KINDS)
def test_the_whole_answer_of_a_get_is_refused_with_what_to_send(desk: Desk, path: str) -> None:
    former = desk.client.get(path)

    refused = problem(desk.put(path, former.get_json(), if_match=former.headers["ETag"]), 422, "validation-error")

    assert pointers(refused) == ["/facts"]
    assert "send what a GET shows under facts" in refused["detail"]


def test_a_new_card_can_be_asked_about_at_once(desk: Desk) -> None:
    assert desk.client.get("/fit", query_string={**QUESTION, "gpu": "my-card"}).status_code == 422

    desk.create("/gpus/my-card", aliases=["My Card"])

    answer = desk.client.get("/fit", query_string={**QUESTION, "gpu": "My Card"}).get_json()
    assert (answer["gpu"]["id"], answer["catalog_revision"], answer["gpu"]["revision"]) == ("my-card", 2, 2)


def test_the_next_quote_counts_what_was_written(desk: Desk) -> None:
    before = desk.client.get("/fit", query_string=QUESTION).get_json()

    facts, tag = desk.read("/gpus/a10")
    desk.put("/gpus/a10", memory(facts, advertised_bytes=48_000_000_000), if_match=tag)

    after = desk.client.get("/fit", query_string=QUESTION).get_json()
    assert (before["ledger"]["memory_bytes"], after["ledger"]["memory_bytes"]) == (24_000_000_000, 48_000_000_000)
    assert (before["catalog_revision"], after["catalog_revision"]) == (1, 2)


def test_a_deleted_card_is_no_longer_quoted(desk: Desk) -> None:
    desk.delete("/gpus/a10")

    problem(desk.client.get("/fit", query_string=QUESTION), 422, "unknown-gpu")


def test_another_worker_answers_from_it_once_its_timer_looked(desk: Desk) -> None:
    url = services_of(desk.app).settings.database_url
    with opened_desk(url, KVQUOTE_CATALOG_REFRESH_SECONDS="0.05") as other:
        assert quoted(other) == (1, "A10 24GB", 1)
        desk.change("/gpus/a10", name="renamed")

        seen = [quoted(other)]
        deadline = time.monotonic() + 20
        while seen[-1][0] == 1 and time.monotonic() < deadline:
            seen.append(quoted(other))

    # Never one revision's number with another's facts.
    assert set(seen) <= {(1, "A10 24GB", 1), (2, "renamed", 2)}
    assert seen[-1] == (2, "renamed", 2)


def quoted(desk: Desk) -> tuple[int, str, int]:
    answer = desk.client.get("/fit", query_string=QUESTION).get_json()
    return answer["catalog_revision"], answer["gpu"]["name"], answer["gpu"]["revision"]


def test_a_worker_writes_on_what_another_wrote_though_its_timer_has_not_looked(desk: Desk) -> None:
    url = services_of(desk.app).settings.database_url
    with opened_desk(url, KVQUOTE_CATALOG_REFRESH_SECONDS="3600") as other:
        facts, stale = other.read("/gpus/a10")
        desk.change("/gpus/a10", name="renamed")

        problem(other.put("/gpus/a10", facts, if_match=stale), 412, "precondition-failed")
        problem(other.create("/gpus/my-card", aliases=["renamed", "NVIDIA A10"]), 409, "name-taken")
        assert other.create("/gpus/my-card").status_code == 201
        assert other.client.get("/gpus/a10").get_json()["name"] == "renamed"


@pytest.mark.parametrize("method", ["put", "delete"])
def test_a_write_without_a_condition_is_refused(desk: Desk, method: str) -> None:
    write = getattr(desk.client, method)

    for headers in ({}, {"If-None-Match": '"x"'}, {"If-None-Match": ""}):
        found = problem(
            write("/gpus/a10", json=card("a10"), headers={**desk.writer, **headers}), 428, "precondition-required"
        )
        assert "If-Match" in found["detail"]
    assert desk.client.get("/gpus/a10").get_json()["revision"] == 1


def test_a_deletion_is_no_creation(desk: Desk) -> None:
    response = desk.client.delete("/gpus/a10", headers={**desk.writer, "If-None-Match": "*"})

    problem(response, 428, "precondition-required")


@pytest.mark.parametrize("spelling", ["W/{tag}", '"x"', "{bare}", "", ",", '"' + "x" * 9000 + '"', "\xff"])
def test_a_tag_that_is_not_the_present_one_is_refused(desk: Desk, spelling: str) -> None:
    facts, tag = desk.read("/gpus/a10")
    given = spelling.replace("{tag}", tag).replace("{bare}", tag[1:-2])

    found = problem(desk.put("/gpus/a10", facts, if_match=given), 412, "precondition-failed")

    assert found["detail"] == "The entry has changed since you read it."
    problem(desk.delete("/gpus/a10", given), 412, "precondition-failed") if given else None


@pytest.mark.parametrize("spelling", ["{tag}", '"x", {tag}', "*"])
def test_the_present_tag_is_taken_in_any_list(desk: Desk, spelling: str) -> None:
    facts, tag = desk.read("/gpus/a10")

    assert desk.put("/gpus/a10", facts, if_match=spelling.replace("{tag}", tag)).status_code == 200


def test_what_exists_is_not_created(desk: Desk) -> None:
    problem(desk.create("/gpus/a10"), 412, "precondition-failed")


def test_what_does_not_exist_is_not_changed(desk: Desk) -> None:
    found = problem(desk.put("/gpus/my-card", card("my-card"), if_match="*"), 412, "precondition-failed")

    assert found["detail"] == "The entry does not exist; send If-None-Match: * to create it."


def test_what_does_not_exist_is_not_deleted(desk: Desk) -> None:
    problem(desk.delete("/gpus/my-card", "*"), 404, "unknown-gpu")


def test_a_write_goes_by_the_id_and_not_by_an_alias(desk: Desk) -> None:
    found = problem(desk.delete("/gpus/NVIDIA A10", "*"), 404, "not-found")
    assert found["errors"][0]["nearest"] == ["a10"]

    facts, tag = desk.read("/gpus/a10")
    assert pointers(problem(desk.put("/gpus/NVIDIA A10", facts, if_match=tag), 422, "validation-error"))[0] == "/id"


def test_writing_the_same_again_makes_no_revision(desk: Desk) -> None:
    facts, tag = desk.read(CARD)
    reordered = dict(reversed(facts.items()))

    response = desk.put(CARD, reordered, if_match=tag)

    assert (response.status_code, response.headers["ETag"]) == (200, tag)
    assert response.data == desk.client.get(CARD).data
    assert response.get_json()["revision"] == 1


def test_numbers_without_a_fraction_are_integers_however_they_are_sent(desk: Desk) -> None:
    facts, tag = desk.read(CARD)

    response = desk.put(CARD, memory(facts, advertised_bytes=80.0e9), if_match=tag)

    assert response.get_json()["revision"] == 1
    assert b'"advertised_bytes":80000000000,' in response.data


def test_a_revision_says_who_when_and_where_from(desk: Desk) -> None:
    desk.change("/gpus/a10", name="renamed")

    with reading(services_of(desk.app).engine) as connection:
        made = revision(connection, 2)
    token_id = desk.writer["Authorization"].split("_")[1]
    assert (made.author, made.origin) == (f"tests (token {token_id})", "api")
    assert made.summary == 'changed gpu a10: name: "A10 24GB" -> "renamed"'


def test_every_write_is_in_the_audit_with_its_request_and_refused_ones_are_not(desk: Desk) -> None:
    facts, tag = desk.read("/gpus/a10")
    desk.put("/gpus/a10", {**facts, "name": "renamed"}, if_match=tag, x_request_id="mine-1")
    desk.put("/gpus/a10", {**facts, "name": "again"}, if_match=tag, x_request_id="mine-2")
    desk.delete("/gpus/a10")

    with reading(services_of(desk.app).engine) as connection:
        events = connection.execute(
            select(AUDIT_EVENT).where(AUDIT_EVENT.c.subject == "gpu/a10").order_by(AUDIT_EVENT.c.id)
        ).all()
    assert [(event.action, event.revision) for event in events] == [("catalog.changed", 2), ("catalog.deleted", 3)]
    assert events[0].request_id == "mine-1"
    assert events[0].after_digest == events[1].before_digest


@pytest.mark.parametrize(
    "aliases, pointer, owner",
    [
        (["fine", "NVIDIA A100-SXM4-80GB"], "/aliases/1", "a100-sxm-80gb"),
        (["A100-SXM-80GB"], "/aliases/0", "a100-sxm-80gb"),
    ],
)
def test_a_name_that_leads_to_another_entry_is_taken(desk: Desk, aliases: list[str], pointer: str, owner: str) -> None:
    found = problem(desk.create("/gpus/my-card", aliases=aliases), 409, "name-taken")

    assert (pointers(found), found["errors"][0]["nearest"]) == ([pointer], [owner])


def test_an_id_that_is_another_entrys_alias_is_taken(desk: Desk) -> None:
    assert pointers(problem(desk.create("/gpus/nvidia-a10"), 409, "name-taken")) == ["/id"]


def test_a_machine_must_have_a_card_that_is_there(desk: Desk) -> None:
    found = problem(desk.change(MACHINE, gpu="NVIDIA A10"), 422, "validation-error")

    assert (pointers(found), found["errors"][0]["nearest"]) == (["/gpu"], ["a10"])


@pytest.mark.parametrize("path, user", [(CARD, "instance aws-p4de-24xlarge"), ("/dtypes/fp16", "model llama-2-7b")])
def test_what_others_name_is_not_deleted(desk: Desk, path: str, user: str) -> None:
    assert user in problem(desk.delete(path), 409, "entry-in-use")["detail"]


def test_a_measured_fact_is_not_overwritten_without_saying_so(desk: Desk) -> None:
    facts, tag = desk.read(CARD)
    typed_in = memory(facts, visible_bytes=85_000_000_000, visible_source="modelled")

    found = problem(desk.put(CARD, typed_in, if_match=tag), 409, "measured-fact")
    assert pointers(found) == ["/memory/visible_bytes", "/memory/visible_source"]
    assert desk.client.get(CARD).get_json()["revision"] == 1

    said = desk.put(CARD, typed_in, if_match=tag, query="?overwrite_measured=true")
    assert (said.status_code, said.get_json()["visible_memory_source"]) == (200, "modelled")


def test_a_fact_that_was_not_measured_is_overwritten_without_a_word(desk: Desk) -> None:
    desk.create("/gpus/my-card", memory=memory(card("my-card"), visible_source="modelled")["memory"])
    facts, tag = desk.read("/gpus/my-card")

    changed = memory(facts, visible_bytes=9_000_000_000, visible_source="measured")

    assert desk.put("/gpus/my-card", changed, if_match=tag).status_code == 200


@pytest.mark.parametrize("query", ["?overwrite_measured=yes", "?overwrite=true", "?as_of=2026-01-01T00:00:00Z"])
def test_a_write_takes_no_other_word(desk: Desk, query: str) -> None:
    facts, tag = desk.read(CARD)

    problem(desk.put(CARD, facts, if_match=tag, query=query), 422, "validation-error")


def test_files_keep_what_was_written_here_and_say_so(desk: Desk) -> None:
    from service.storage.catalog_files import load
    from service.storage.migrations import data_folder

    desk.change("/gpus/a10", name="renamed")

    report = load(services_of(desk.app).engine, data_folder("catalog"), "jo")

    assert report.conflicts == ("gpu a10: changed by api in revision 2",)
    assert '    name: "renamed" -> "A10 24GB"' in report.conflict_lines
    services_of(desk.app).keeper.refresh()
    assert desk.client.get("/gpus/a10").get_json()["name"] == "renamed"

    load(services_of(desk.app).engine, data_folder("catalog"), "jo", overwrite=True)
    services_of(desk.app).keeper.refresh()
    assert desk.client.get("/gpus/a10").get_json()["name"] == "A10 24GB"


def at_once(count: int, act: Callable[[int], int]) -> list[int]:
    barrier = threading.Barrier(count)

    def run(number: int) -> int:
        barrier.wait()
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return sorted(pool.map(run, range(count)))


def test_of_writers_to_one_row_exactly_one_wins_and_nothing_is_lost(desk: Desk) -> None:
    facts, tag = desk.read("/gpus/a10")

    def change(number: int) -> int:
        headers = {**desk.writer, "If-Match": tag}
        changed = {**facts, "name": f"writer {number}"}
        return desk.app.test_client().put("/gpus/a10", json=changed, headers=headers).status_code

    assert at_once(6, change) == [200, 412, 412, 412, 412, 412]
    states = desk.client.get("/gpus/a10/revisions").get_json()["items"]
    assert [state["revision"] for state in states] == [2, 1]
    assert desk.client.get("/gpus/a10").get_json()["name"] == states[0]["facts"]["name"] != facts["name"]


def test_of_creators_of_one_row_exactly_one_wins(desk: Desk) -> None:
    def create(number: int) -> int:
        headers = {**desk.writer, "If-None-Match": "*"}
        facts = {**card("my-card"), "name": f"creator {number}"}
        return desk.app.test_client().put("/gpus/my-card", json=facts, headers=headers).status_code

    assert at_once(5, create) == [201, 412, 412, 412, 412]


def test_writers_of_different_rows_all_win(desk: Desk) -> None:
    def create(number: int) -> int:
        headers = {**desk.writer, "If-None-Match": "*"}
        path = f"/gpus/card-{number}"
        return desk.app.test_client().put(path, json=card(f"card-{number}"), headers=headers).status_code

    assert at_once(6, create) == [201] * 6
    assert desk.client.get("/gpus?q=card-").get_json()["catalog_revision"] == 7
    assert len(desk.client.get("/gpus?q=card-").get_json()["items"]) == 6


def test_claims_to_one_alias_at_once_are_not_all_granted(desk: Desk) -> None:
    def create(number: int) -> int:
        headers = {**desk.writer, "If-None-Match": "*"}
        facts = {**card(f"card-{number}"), "aliases": ["The One"]}
        return desk.app.test_client().put(f"/gpus/card-{number}", json=facts, headers=headers).status_code

    assert at_once(4, create) == [201, 409, 409, 409]
    assert desk.client.get("/gpus/The One").status_code == 200


def test_a_lost_answer_is_told_by_the_tag(desk: Desk) -> None:
    facts, tag = desk.read("/gpus/a10")
    changed = {**facts, "name": "renamed"}
    desk.put("/gpus/a10", changed, if_match=tag)

    problem(desk.put("/gpus/a10", changed, if_match=tag), 412, "precondition-failed")
    assert desk.read("/gpus/a10")[0] == changed


def test_a_reader_may_not_write(desk: Desk) -> None:
    for method in ("put", "delete"):
        write = getattr(desk.client, method)
        response = write("/gpus/a10", json=card("a10"), headers={**desk.reader, "If-Match": "*"})
        assert "catalog:write" in problem(response, 403, "missing-scope")["detail"]
        assert response.headers["WWW-Authenticate"].endswith('scope="catalog:write"')


def test_a_token_with_several_scopes_may_do_each(desk: Desk) -> None:
    from service.storage.tokens import Scope

    headers = bearer(desk.app, *Scope)

    assert desk.client.put("/gpus/a10", json=card("a10"), headers={**headers, "If-Match": "*"}).status_code in {
        200,
        409,
    }
