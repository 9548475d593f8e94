"""Bad input to the catalog, row by row as numbered in the project's table of bad input; on both databases."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.api.asking import pointers, problem, strict
from tests.api.desk import CARD, MACHINE, MODEL, Desk, card, stored_facts

FACTS = {path: stored_facts(path.strip("/")) for path in (CARD, MACHINE, MODEL)}


def with_value(path: str, pointer: str, value: object) -> dict[str, Any]:
    """The facts of an entry with the value at a pointer replaced."""
    return replaced(FACTS[path], pointer.strip("/").split("/"), value)


def replaced(document: dict[str, Any], steps: list[str], value: object) -> dict[str, Any]:
    name, *rest = steps
    return {**document, name: replaced(document[name], rest, value) if rest else value}


NUMBERS = [
    (33, CARD, "/memory/advertised_bytes", 9223372036854775808),
    (33, CARD, "/memory/advertised_bytes", -9223372036854775809),
    (33, CARD, "/release_year", 9223372036854775808),
    (33, MACHINE, "/gpu_count", 9223372036854775808),
    (33, MODEL, "/parameters/count", 9223372036854775808),
    (33, MODEL, "/config/hidden_size", -9223372036854775809),
    (35, CARD, "/memory/advertised_bytes", 0),
    (35, CARD, "/memory/advertised_bytes", -1),
    (35, CARD, "/memory/bandwidth_bytes_per_second", 0),
    (35, CARD, "/memory/bandwidth_bytes_per_second", 5e-324),
    (35, CARD, "/memory/bandwidth_bytes_per_second", 1e308),
    (35, CARD, "/peak_flops_per_second/bf16", 0),
    (35, CARD, "/peak_flops_per_second/bf16", 5e-324),
    (35, CARD, "/peak_flops_per_second/bf16", 1e308),
    (35, CARD, "/interconnect/nvlink_bytes_per_second", 1e308),
    (35, CARD, "/power_watts", 1e308),
    (35, MODEL, "/parameters/count", 0),
    (35, MODEL, "/parameters/active", 1e308),
    (35, MODEL, "/context_tokens", 1e308),
    (35, MODEL, "/config/vocab_size", 1e308),
    (35, MACHINE, "/price/usd_per_hour", -1),
    (35, MACHINE, "/price/usd_per_hour", 0),
    (35, MACHINE, "/price/usd_per_hour", 1e308),
    (35, MACHINE, "/memory_bytes", 1e308),
]
TEXTS = [
    (41, CARD, "/name", "\ud800"),
    (41, CARD, "/provenance/notes", "a\udc00b"),
    (41, MODEL, "/config/note", "\ud800"),
    (42, CARD, "/name", "a\0b"),
    (42, CARD, "/provenance/notes", "a\0b"),
    (42, MODEL, "/config/note", "a\0b"),
    (43, CARD, "/name", "x" * 201),
    (43, CARD, "/name", "\U0001f600" * 201),
    (44, CARD, "/name", "A\u202e100"),
    (44, CARD, "/name", " A100"),
    (44, CARD, "/name", "A\u200b100"),
    (44, CARD, "/name", "A\x1b100"),
]


@pytest.mark.parametrize("row, path, pointer, value", [*NUMBERS, *TEXTS])
def test_a_fact_that_cannot_be_is_refused_and_no_quote_changes(
    shared_desk: Desk, row: int, path: str, pointer: str, value: object
) -> None:
    assert row
    _, tag = shared_desk.read(path)

    found = problem(shared_desk.put(path, with_value(path, pointer, value), if_match=tag), 422, "validation-error")

    assert set(pointers(found)) == {pointer}
    quote = shared_desk.client.get("/traffic?model=llama-2-7b&gpu=a100-sxm-80gb&context_tokens=4096")
    assert quote.status_code == 200
    assert strict(quote.data)["catalog_revision"] == 1


def test_the_smallest_and_the_largest_facts_are_quoted_without_infinity(desk: Desk) -> None:
    for number, (size, rate, peak) in enumerate([(1, 1, 1), (2**50, 1e18, 1e21), (1, 1e18, 1), (2**50, 1, 1e21)]):
        facts = card(f"card-{number}")
        facts["memory"] |= {"advertised_bytes": size, "visible_bytes": size, "bandwidth_bytes_per_second": rate}
        facts["peak_flops_per_second"] = dict.fromkeys(facts["peak_flops_per_second"], peak)
        assert desk.put(f"/gpus/card-{number}", facts, if_none_match="*").status_code == 201
        for path in ("/fit", "/traffic"):
            response = desk.client.get(path, query_string={"model": "llama-2-7b", "gpu": f"card-{number}"})
            assert response.status_code == 200
            strict(response.data)


@pytest.mark.parametrize(
    "name", ["\U0001f600" * 200, "e\u0301" * 100, "<script>alert(1)</script>", "{{7*7}}", "' OR 1=1--"]
)
def test_rows_43_52_and_54_a_text_is_stored_as_it_is(desk: Desk, name: str) -> None:
    notes = f"{name}\u202e\u200b\n\t\x07"
    provenance = {**FACTS[CARD]["provenance"], "notes": notes}

    assert desk.change("/gpus/a10", name=name, provenance=provenance).status_code == 200

    response = desk.client.get("/gpus/a10")
    assert (response.get_json()["name"], response.get_json()["facts"]["provenance"]["notes"]) == (name, notes)
    assert response.content_type == "application/json"
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "gpu_id",
    ["A100", "a 100", "caf\u00e9", "cafe\u0301", "a\u202eb", "a\u200bb", "a\0b", "-a", "a/b", "x" * 201, "%", "."],
)
def test_rows_44_and_45_an_id_is_a_slug(shared_desk: Desk, gpu_id: str) -> None:
    facts = {**card("x"), "id": gpu_id}
    headers = {**shared_desk.writer, "If-None-Match": "*"}

    response = shared_desk.client.put(
        "/gpus/" + gpu_id.replace("%", "%25").replace("\0", "%00"), json=facts, headers=headers
    )

    assert "/id" in pointers(problem(response, 422, "validation-error"))


@pytest.mark.parametrize(
    "spelling", ["meta-llama/llama-2-7b-hf", "Meta-Llama/LLAMA-2-7B-HF", "META-LLAMA%2FLlama-2-7b-hf"]
)
def test_rows_46_and_47_a_hub_id_is_one_in_any_case_and_escape(shared_desk: Desk, spelling: str) -> None:
    assert shared_desk.client.get(f"/models/{spelling}").get_json()["id"] == "llama-2-7b"
    query = {"model": spelling.replace("%2F", "/"), "gpu": "a10"}
    assert shared_desk.client.get("/fit", query_string=query).get_json()["model"]["id"] == "llama-2-7b"


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "%00", "//evil.com", "/evil.com"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_row_48_a_path_leads_nowhere_else(shared_desk: Desk, name: str, method: str) -> None:
    headers = {**shared_desk.writer, "If-Match": "*"}

    response = shared_desk.client.open(f"/models/{name}", method=method, json=FACTS[MODEL], headers=headers)

    # What is written to is an id: one that cannot be is a fault of the body that has it.
    assert response.status_code == (422 if method == "PUT" and not name.startswith("/") else 404)
    assert "Location" not in response.headers


@pytest.mark.parametrize(
    "name",
    [
        "trusted",
        "tenant_id",
        "received_at",
        "created_by",
        "revision",
        "origin",
        "__proto__",
        "__class__",
        "self",
        "{{7*7}}",
    ],
)
def test_rows_52_and_64_only_facts_of_the_schema_are_taken(shared_desk: Desk, name: str) -> None:
    for path in (CARD, MODEL):
        _, tag = shared_desk.read(path)
        found = problem(shared_desk.put(path, {**FACTS[path], name: True}, if_match=tag), 422, "validation-error")
        assert pointers(found) == [f"/{name}"]
        assert name in found["detail"]


def test_row_64_nor_inside_another_fact(shared_desk: Desk) -> None:
    _, tag = shared_desk.read(CARD)
    memory = {**FACTS[CARD]["memory"], "trusted": True}

    found = problem(shared_desk.put(CARD, {**FACTS[CARD], "memory": memory}, if_match=tag), 422, "validation-error")

    assert pointers(found) == ["/memory/trusted"]


def test_row_64_another_id_than_the_paths_is_refused(shared_desk: Desk) -> None:
    _, tag = shared_desk.read(CARD)

    found = problem(shared_desk.put(CARD, {**FACTS[CARD], "id": "a10"}, if_match=tag), 422, "validation-error")

    assert pointers(found) == ["/id"]


@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"1", b"true"])
def test_a_body_that_is_no_object_is_refused(shared_desk: Desk, body: bytes) -> None:
    headers = {**shared_desk.writer, "If-Match": "*", "Content-Type": "application/json"}

    found = problem(shared_desk.client.put(CARD, data=body, headers=headers), 422, "validation-error")

    assert pointers(found) == [""]


@pytest.mark.parametrize(
    "body, status, name",
    [
        (b"", 411, "length-required"),
        (b'{"id": NaN}', 400, "malformed-json"),
        (b'{"id": "x", "id": "y"}', 400, "duplicate-key"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 400, "too-deep"),
        (b"{" + b" " * (1 << 20) + b"}", 413, "too-large"),
        (b'"\xff"', 400, "malformed-json"),
    ],
)
def test_a_body_that_is_no_json_is_refused(shared_desk: Desk, body: bytes, status: int, name: str) -> None:
    headers = {**shared_desk.writer, "If-Match": "*", "Content-Type": "application/json"}

    problem(shared_desk.client.put(CARD, data=body, headers=headers), status, name)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-yaml", "application/merge-patch+json", ""])
def test_a_body_of_another_type_is_refused(shared_desk: Desk, content_type: str) -> None:
    headers = {**shared_desk.writer, "If-Match": "*", "Content-Type": content_type}

    problem(shared_desk.client.put(CARD, data=b"{}", headers=headers), 415, "unsupported-media-type")


def test_every_fault_of_a_body_is_named_and_no_more_than_fifty(shared_desk: Desk) -> None:
    facts = {**FACTS[CARD], "name": "", "aliases": list(range(1000)), "power_watts": -1, "mig": {"parent": 1}}

    found = problem(shared_desk.put(CARD, facts, if_match="*"), 422, "validation-error")

    assert len(found["errors"]) == 50


@pytest.mark.parametrize("method", ["POST", "PATCH", "TRACE"])
@pytest.mark.parametrize("path", ["/gpus", CARD, f"{CARD}/revisions"])
def test_a_method_that_a_path_does_not_take_is_told_which_are(client: FlaskClient, path: str, method: str) -> None:
    response = client.open(path, method=method)

    problem(response, 405, "method-not-allowed")
    assert "GET" in response.headers["Allow"]


def test_a_path_never_ends_in_a_slash(client: FlaskClient) -> None:
    problem(client.get("/gpus/"), 404, "not-found")
