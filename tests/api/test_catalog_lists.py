"""Lists of the catalog: filters, pages, formats and conditions."""

import csv
import io
import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from service.api.paging import make_cursor
from tests.api.asking import pointers, problem
from tests.api.desk import Desk

LISTS = ["/models", "/gpus", "/instances", "/dtypes", "/engines"]


@pytest.fixture
def client(shared_desk: Desk) -> FlaskClient:
    return shared_desk.client


def listed(client: FlaskClient, path: str, **asked: str) -> list[str]:
    response = client.get(path, query_string=asked)
    assert response.status_code == 200, response.text
    return [item["id"] for item in response.get_json()["items"]]


@pytest.mark.parametrize("path", LISTS)
def test_it_works(client: FlaskClient, path: str) -> None:
    answer = client.get(f"{path}?limit=500").get_json()

    assert list(answer) == ["items", "next_cursor", "catalog_revision"]
    assert answer["items"]
    assert answer["next_cursor"] is None
    assert answer["catalog_revision"] == 1
    assert [item["id"] for item in answer["items"]] == sorted(item["id"] for item in answer["items"])


@pytest.mark.parametrize(
    "path, asked, expected",
    [
        ("/gpus", {"vendor": "amd"}, []),
        ("/gpus", {"architecture": "hopper"}, ["h100-sxm-80gb"]),
        ("/gpus", {"architecture": "hopper,turing", "mig": "false", "min_memory_bytes": "80e9"}, ["h100-sxm-80gb"]),
        ("/gpus", {"architecture": "hopper,ampere", "min_memory_bytes": "80e9"}, ["a100-sxm-80gb", "h100-sxm-80gb"]),
        ("/gpus", {"mig": "true"}, ["a100-sxm-80gb-mig-1g-10gb"]),
        ("/gpus", {"mig_parent": "A100 SXM"}, ["a100-sxm-80gb-mig-1g-10gb"]),
        ("/gpus", {"max_memory_bytes": "24000000000", "mig": "false"}, ["a10", "a10g"]),
        ("/gpus", {"q": "NVIDIA h100"}, ["h100-sxm-80gb"]),
        ("/models", {"family": "llama-2"}, ["llama-2-7b"]),
        ("/models", {"architecture": "qwen2"}, ["qwen2-7b-instruct"]),
        ("/models", {"min_parameters": "7e9"}, ["qwen2-7b-instruct"]),
        ("/models", {"max_parameters": "7e9", "has_reader": "true"}, ["llama-2-7b"]),
        ("/models", {"has_reader": "false"}, []),
        ("/models", {"licence": "llama2", "weight_dtype": "FP16"}, ["llama-2-7b"]),
        ("/models", {"q": "meta-llama/"}, ["llama-2-7b"]),
        ("/models", {"min_context_tokens": "4097"}, ["qwen2-7b-instruct"]),
        ("/instances", {"cloud": "aws", "gpu": "A100 SXM"}, ["aws-p4de-24xlarge"]),
        ("/instances", {"min_gpu_count": "2"}, ["aws-p4de-24xlarge"]),
        ("/dtypes", {"kv": "true", "weight": "true", "q": "FLOAT16"}, ["bf16", "fp16"]),
        ("/dtypes", {"gguf_mix": "true", "q": "q4_k"}, ["q4_k_m", "q4_k_s"]),
        ("/engines", {"q": "none"}, ["none"]),
    ],
)  # fmt: skip
def test_filters_narrow_a_list(client: FlaskClient, path: str, asked: dict[str, str], expected: list[str]) -> None:
    assert listed(client, path, **asked) == expected


@pytest.mark.parametrize("text", ["%", "_", "%25", "' OR 1=1--", "*", "\\"])
def test_a_searched_text_is_taken_literally(client: FlaskClient, text: str) -> None:
    assert listed(client, "/gpus", q=text) == []


def test_pages_follow_each_other_by_cursor_and_by_link(client: FlaskClient) -> None:
    by_cursor: list[str] = []
    by_link: list[str] = []
    cursor, path = None, "/gpus?mig=false&limit=2"
    for _ in range(2):
        page = client.get("/gpus", query_string={"mig": "false", "limit": 2, **({"cursor": cursor} if cursor else {})})
        by_cursor += [item["id"] for item in page.get_json()["items"]]
        cursor = page.get_json()["next_cursor"]
        followed = client.get(path)
        by_link += [item["id"] for item in followed.get_json()["items"]]
        path = followed.headers.get("Link", "").removeprefix("<").partition(">")[0]

    assert by_cursor == by_link == ["a10", "a100-sxm-80gb", "a10g", "h100-sxm-80gb"]
    assert (cursor, path) == (None, "")


def test_a_link_repeats_the_filters_and_names_no_host(client: FlaskClient) -> None:
    link = client.get("/gpus?architecture=ampere,hopper&limit=1", headers={"Host": "evil.example"}).headers["Link"]

    assert link.startswith("</gpus?architecture=ampere,hopper&limit=1&cursor=")
    assert link.endswith('>; rel="next"')


def test_a_cursor_goes_on_with_another_limit_and_format(client: FlaskClient) -> None:
    cursor = client.get("/gpus?limit=1").get_json()["next_cursor"]

    assert listed(client, "/gpus", cursor=cursor, limit="1") == ["a100-sxm-80gb"]
    assert client.get(f"/gpus?cursor={cursor}&limit=500&format=csv").text.count("\n") == 5


def cursors_of_others(client: FlaskClient) -> dict[str, str]:
    cursor: str = client.get("/gpus?limit=1&vendor=nvidia").get_json()["next_cursor"]
    return {
        "of other filters": cursor,
        "cut": client.get("/gpus?limit=1").get_json()["next_cursor"][:-1],
        "changed": "A" + client.get("/gpus?limit=1").get_json()["next_cursor"][1:],
        "of another list": make_cursor("/models", {}, "a10"),
        "made up": "AAAAAAAAAAAAAAAA",
        "no base64": "!!!!",
        "not utf-8": "_____________w",
        "long": "A" * 401,
        "unicode": "é",
        "nul": "\0",
    }


@pytest.mark.parametrize(
    "which",
    [
        *("of other filters", "cut", "changed", "of another list", "made up"),
        *("no base64", "not utf-8", "long", "unicode", "nul"),
    ],
)
def test_a_cursor_of_another_question_is_refused(client: FlaskClient, which: str) -> None:
    response = client.get("/gpus", query_string={"cursor": cursors_of_others(client)[which]})

    assert pointers(problem(response, 422, "validation-error")) == ["/cursor"]


def test_a_forged_cursor_is_only_another_place_to_begin(client: FlaskClient) -> None:
    assert listed(client, "/gpus", cursor=make_cursor("/gpus", {}, "zzz\0\ud7ff")) == []
    for key in ("9" * 99, "0", "-1"):
        forged = make_cursor("/gpus/a10/revisions", {}, key)
        assert client.get("/gpus/a10/revisions", query_string={"cursor": forged}).status_code == 200


@pytest.mark.parametrize("limit", ["0", "-1", "501", "1000000000", "1_0", "٣", "+5", "5.5", "1e3", "0x10", " 5", ""])
def test_a_limit_is_a_whole_number_from_1_to_500(client: FlaskClient, limit: str) -> None:
    response = client.get("/gpus", query_string={"limit": limit})

    assert pointers(problem(response, 422, "validation-error")) == ["/limit"]


@pytest.mark.parametrize(
    "asked, pointer, nearest",
    [
        ("vendors=nvidia", "/vendors", ["vendor"]),
        ("sort=price;drop table", "/sort", ["format"]),
        ("order=__class__", "/order", []),
        ("offset=1000000000000", "/offset", []),
        ("format=xml", "/format", []),
        ("mig=yes", "/mig", []),
        ("min_memory_bytes=1e400", "/min_memory_bytes", []),
        ("min_memory_bytes=nan", "/min_memory_bytes", []),
        ("min_memory_bytes=2&max_memory_bytes=1", "/min_memory_bytes", []),
        ("vendor=", "/vendor/0", []),
        ("vendor=a,,b", "/vendor/1", []),
        ("q=%00", "/q", []),
        ("q=%E2%80%8B", "/q", []),
        ("as_of=2026-01-01", "/as_of", []),
        ("token=kvq_x", "/token", []),
    ],
)
def test_what_a_list_does_not_know_is_refused(
    client: FlaskClient, asked: str, pointer: str, nearest: list[str]
) -> None:
    found = problem(client.get(f"/gpus?{asked}"), 422, "validation-error")

    assert pointers(found) == [pointer]
    assert found["errors"][0]["nearest"][:1] == nearest


def test_a_filter_that_names_an_entry_must_name_one(client: FlaskClient) -> None:
    found = problem(client.get("/instances?gpu=A100 SXM,h100-sxm-81gb"), 422, "unknown-gpu")

    assert pointers(found) == ["/gpu/1"]
    assert found["errors"][0]["nearest"][0] == "h100-sxm-80gb"


@pytest.mark.parametrize("query", ["q=%ff", "q=%ED%A0%80"])
def test_a_query_that_is_not_utf_8_is_refused(client: FlaskClient, query: str) -> None:
    problem(client.get(f"/gpus?{query}"), 400, "malformed-query")


def test_a_name_given_twice_is_refused(client: FlaskClient) -> None:
    problem(client.get("/gpus?limit=1&limit=2"), 400, "duplicate-key")


ROWS_TAKEN = [
    ({"format": "csv"}, {}, "text/csv; charset=utf-8; header=present"),
    ({}, {"Accept": "text/csv"}, "text/csv; charset=utf-8; header=present"),
    ({"format": "ndjson"}, {}, "application/x-ndjson"),
    ({}, {"Accept": "application/x-ndjson"}, "application/x-ndjson"),
    ({"format": "json"}, {"Accept": "text/csv"}, "application/json"),
    ({"format": "csv"}, {"Accept": "application/json"}, "text/csv; charset=utf-8; header=present"),
    ({}, {"Accept": "text/csv;q=0.5, application/json"}, "application/json"),
    ({}, {"Accept": "text/html, text/*;q=0.5"}, "text/csv; charset=utf-8; header=present"),
    ({}, {"Accept": "*/*"}, "application/json"),
    ({}, {}, "application/json"),
]


@pytest.mark.parametrize("asked, headers, content_type", ROWS_TAKEN)
def test_the_format_is_what_format_or_else_accept_says(
    client: FlaskClient, asked: dict[str, str], headers: dict[str, str], content_type: str
) -> None:
    response = client.get("/gpus", query_string=asked, headers=headers)

    assert (response.status_code, response.content_type) == (200, content_type)
    assert response.headers["Vary"] == "Accept"


@pytest.mark.parametrize("accept", ["application/xml", "text/html", "application/json;q=0"])
def test_a_list_that_the_client_cannot_read_is_not_made(client: FlaskClient, accept: str) -> None:
    problem(client.get("/gpus", headers={"Accept": accept}), 406, "not-acceptable")


@pytest.mark.parametrize("path", LISTS)
def test_all_formats_hold_the_same_rows(client: FlaskClient, path: str) -> None:
    items = client.get(path).get_json()["items"]
    lines = [json.loads(line) for line in client.get(f"{path}?format=ndjson").text.splitlines()]
    table = list(csv.DictReader(io.StringIO(client.get(f"{path}?format=csv").text)))

    assert lines == items
    assert [list(row) for row in table] == [list(item) for item in items]
    assert [list(row.values()) for row in table] == [[cell(value) for value in item.values()] for item in items]


def cell(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_a_csv_without_rows_has_its_head(client: FlaskClient) -> None:
    assert client.get("/gpus?vendor=amd&format=csv").text.startswith("id,name,vendor,")
    assert client.get("/gpus?vendor=amd&format=ndjson").text == ""


@pytest.mark.parametrize("path", LISTS)
def test_who_has_the_page_is_told_so(client: FlaskClient, path: str) -> None:
    tag = client.get(path).headers["ETag"]

    again = client.get(path, headers={"If-None-Match": tag})

    assert (again.status_code, again.data, again.headers["ETag"], again.headers["Vary"]) == (304, b"", tag, "Accept")
    assert client.get(path, headers={"If-None-Match": "*"}).status_code == 304


def test_each_page_and_format_has_a_tag_of_its_own(client: FlaskClient) -> None:
    asked = [{}, {"limit": 1}, {"vendor": "nvidia"}, {"format": "csv"}, {"format": "ndjson"}]
    tags = [client.get("/gpus", query_string=each).headers["ETag"] for each in asked]

    assert len(set(tags)) == len(tags)


def test_a_page_that_the_client_has_is_not_made(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = client.get("/gpus").headers["ETag"]

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("service.api.catalog_reads.flat_row", fail)

    assert client.get("/gpus", headers={"If-None-Match": tag}).status_code == 304


@pytest.mark.parametrize("given", ['"x"', "x", '""', "W/", ",,,", '"' + "x" * 8000 + '"', "\xff", "x" * 9000])
def test_any_other_tag_is_answered_in_full(client: FlaskClient, given: str) -> None:
    for path in ("/gpus", "/gpus/a10", "/gpus/a10/revisions"):
        assert client.get(path, headers={"If-None-Match": given}).status_code == 200


def test_a_head_is_a_get_without_its_body(client: FlaskClient) -> None:
    head, get = client.head("/gpus"), client.get("/gpus")

    assert head.data == b""
    assert (head.headers["ETag"], head.headers["Content-Length"]) == (
        get.headers["ETag"],
        get.headers["Content-Length"],
    )


def test_the_tag_changes_with_the_catalog(desk: Desk) -> None:
    tag = desk.client.get("/models").headers["ETag"]
    desk.change("/gpus/a10", name="renamed")

    assert desk.client.get("/models", headers={"If-None-Match": tag}).status_code == 200


def test_every_filter_is_described(client: FlaskClient) -> None:
    spec = client.get("/openapi.json").get_json()
    described: dict[str, set[Any]] = {
        path: {parameter.get("name") for parameter in spec["paths"][path]["get"]["parameters"]} for path in LISTS
    }

    for path, names in described.items():
        assert {"limit", "cursor", "format", "q", "as_of"} <= names, path
    assert {"family", "architecture", "licence", "has_reader", "min_parameters", "max_parameters"} <= described[
        "/models"
    ]
