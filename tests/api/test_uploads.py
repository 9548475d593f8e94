"""Bodies of uploads: formats, limits, and bad rows that hurt nobody else."""

import gzip
import io
import json
import math
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.api.asking import problem
from tests.api.probing import Lab, impossible_row, invalid_row, new_lab, row, unmatched_row, verdicts
from tests.computing import quickly

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

    from tests.databases import Databases

LIMIT = 10 << 20


@pytest.fixture(scope="module")
def lab(sqlite: "Databases") -> Iterator[Lab]:
    with sqlite.migrated() as url, new_lab(url) as lab:
        yield lab


def post(lab: Lab, body: bytes, content_type: str = "application/json", **environ: str) -> "TestResponse":
    return lab.client.post(
        "/measurements", data=body, content_type=content_type, headers=lab.probe, environ_overrides=environ
    )


def chunked(lab: Lab, body: bytes, content_type: str = "application/json") -> "TestResponse":
    overrides = {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}
    return lab.client.post("/measurements", content_type=content_type, headers=lab.probe, environ_overrides=overrides)


def envelope(*rows: object) -> bytes:
    return json.dumps({"items": rows}).encode()


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in rows)


@pytest.mark.parametrize("content_type", ["application/x-ndjson", "application/ndjson; charset=utf-8"])
def test_rows_may_come_one_a_line(lab: Lab, content_type: str) -> None:
    assert verdicts(post(lab, lines(row(), unmatched_row()) + b"\n", content_type)) == ["accepted", "unmatched"]


def test_a_broken_line_is_one_broken_row(lab: Lab) -> None:
    body = lines(row()) + b'{"id":\n' + lines(row())

    answer = post(lab, body, "application/x-ndjson")

    assert verdicts(answer) == ["accepted", "rejected", "accepted"]
    assert answer.get_json()["items"][1]["errors"][0]["pointer"] == ""


@pytest.mark.parametrize(
    "broken, detail",
    [
        (b'{"id":', "Line 4, column 7:"),
        (b'{"id":\r', "Line 4, column 8:"),
        (b'{"id": 1, "id": 2}', "Line 4: 'id' is given twice"),
        (b'{"id": "\xff"}', "Line 4: The body is not UTF-8"),
        (b"[" * 99, "Line 4: Objects and lists"),
    ],
)
def test_a_broken_line_is_told_by_its_number(lab: Lab, broken: bytes, detail: str) -> None:
    # Empty lines are no rows, and count as lines.
    body = lines(row()) + b"\n \r\n" + broken + b"\n" + lines(row())

    answer = post(lab, body, "application/x-ndjson")

    assert verdicts(answer) == ["accepted", "rejected", "accepted"]
    assert answer.get_json()["items"][1]["detail"].startswith(detail)


@pytest.mark.parametrize("pack", [gzip.compress, lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:])])
def test_a_body_may_be_compressed(lab: Lab, pack: Any) -> None:  # noqa: ANN401
    assert verdicts(post(lab, pack(envelope(row())), HTTP_CONTENT_ENCODING="gzip")) == ["accepted"]


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip"])
def test_other_codings_are_refused(lab: Lab, coding: str) -> None:
    problem(post(lab, envelope(row()), HTTP_CONTENT_ENCODING=coding), 415, "unsupported-media-type")


def test_what_is_not_compressed_though_it_says_so_is_refused(lab: Lab) -> None:
    problem(post(lab, envelope(row()), HTTP_CONTENT_ENCODING="gzip"), 415, "unsupported-media-type")


def test_a_compressed_body_that_ends_early_is_refused(lab: Lab) -> None:
    packed = gzip.compress(envelope(row()))

    problem(post(lab, packed[:-9], HTTP_CONTENT_ENCODING="gzip"), 400, "malformed-request")


def test_a_body_may_have_a_member_for_each_row(lab: Lab) -> None:
    body = b"".join(gzip.compress(lines(row())) for _ in range(300))

    answer = post(lab, body, "application/x-ndjson", HTTP_CONTENT_ENCODING="gzip")

    assert answer.get_json()["counts"]["accepted"] == 300


def test_empty_members_by_the_thousand_are_refused_at_once(lab: Lab) -> None:
    body = gzip.compress(b"") * 400_000

    # Where what follows each is copied, it takes minutes.
    answer = quickly(lambda: post(lab, body, "application/x-ndjson", HTTP_CONTENT_ENCODING="gzip"), seconds=5)

    problem(answer, 413, "too-large")


def test_a_bomb_is_refused_without_unpacking_it(lab: Lab) -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(b" " * 2**20) for _ in range(200)) + packer.flush()
    assert len(bomb) < 2 * 2**20

    tracemalloc.start()
    answer = post(lab, bomb, HTTP_CONTENT_ENCODING="gzip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    problem(answer, 413, "too-large")
    assert peak < 50 * 2**20


@pytest.mark.parametrize("content_type", ["text/plain", "application/vnd.x+json", "multipart/form-data"])
def test_other_types_are_refused(lab: Lab, content_type: str) -> None:
    problem(post(lab, envelope(row()), content_type), 415, "unsupported-media-type")


@pytest.mark.parametrize("send", [post, chunked])
def test_a_body_over_the_limit_is_refused_with_nothing_stored(lab: Lab, send: Any) -> None:  # noqa: ANN401
    before = lab.stored()
    body = envelope(row())

    problem(send(lab, body + b" " * (LIMIT + 1 - len(body))), 413, "too-large")
    assert lab.stored() == before


def test_lines_over_the_limit_are_refused_and_not_cut(lab: Lab) -> None:
    before = lab.stored()
    one = lines(row())

    problem(chunked(lab, one + b" " * (LIMIT - len(one)) + lines(row()), "application/x-ndjson"), 413, "too-large")
    assert lab.stored() == before


@pytest.mark.parametrize("send", [post, chunked])
def test_a_body_of_exactly_the_limit_is_taken(lab: Lab, send: Any) -> None:  # noqa: ANN401
    body = envelope(row())

    assert verdicts(send(lab, body + b" " * (LIMIT - len(body)))) == ["accepted"]


@pytest.mark.parametrize("write, content_type", [(envelope, "application/json"), (lines, "application/x-ndjson")])
def test_a_thousand_rows_are_taken_and_not_one_more(lab: Lab, write: Any, content_type: str) -> None:  # noqa: ANN401
    rows = [row() for _ in range(1001)]
    before = lab.stored()

    problem(post(lab, write(*rows), content_type), 413, "too-large")
    assert lab.stored() == before
    assert post(lab, write(*rows[:1000]), content_type).get_json()["counts"]["accepted"] == 1000


def test_empty_lists_by_the_million_are_refused_before_they_are_made(lab: Lab) -> None:
    problem(post(lab, b'{"items": [' + b"[]," * 3_000_000 + b"[]]}"), 413, "too-large")


@pytest.mark.parametrize(
    "body, pointer",
    [
        (b"[]", ""),
        (b"{}", "/items"),
        (json.dumps(row()).encode(), "/items"),
        (b'{"items": null, "more": 1}', "/items"),
        (b'{"items": []}', "/items"),
        (b'{"items": {}}', "/items"),
        (b'{"items": [1], "more": 1}', "/more"),
        (b'{"items": [1], "sent_at": "now"}', "/sent_at"),
    ],
)
def test_an_envelope_that_is_none_is_refused(lab: Lab, body: bytes, pointer: str) -> None:
    assert problem(post(lab, body), 422, "validation-error")["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("place", ["part", "values", "setup"])
def test_half_of_a_surrogate_pair_does_not_come_back(lab: Lab, place: str) -> None:
    """Strict readers refuse a whole answer for it."""
    half = {"é\ud800": 1}
    sent = {"part": {**row(), **half}, "values": row(values={"bytes_per_second": 1, **half}), "setup": row(setup=half)}

    answer = lab.upload(sent[place], row())

    assert verdicts(answer) == ["rejected", "accepted"]
    assert orjson.loads(answer.data)["items"][0]["errors"][0]["pointer"].endswith("/é?")


def test_no_line_at_all_is_refused(lab: Lab) -> None:
    problem(post(lab, b"\n\n", "application/x-ndjson"), 422, "validation-error")


@pytest.mark.parametrize("given", [None, 7, "row", [], True])
def test_what_is_no_object_is_one_rejected_row(lab: Lab, given: object) -> None:
    assert verdicts(lab.upload(given, row())) == ["rejected", "accepted"]


@pytest.mark.parametrize("make", [invalid_row, impossible_row, unmatched_row])
def test_the_answer_to_a_thousand_bad_rows_stays_small(lab: Lab, make: Any) -> None:  # noqa: ANN401
    awful = dict.fromkeys(("hostname" * 9, "serial" * 20, "path" * 60, "more"), "x" * 300)
    rows = [{**make(), **(awful if make is invalid_row else {})} for _ in range(1000)]

    answer = post(lab, envelope(*rows))

    items = answer.get_json()["items"]
    assert len(answer.data) < 160 << 10
    assert all(item["detail"] for item in items[:50])
    assert all(item["detail"] is None and item["errors"] == [] for item in items[50:])
    assert all(len(item["errors"]) <= 3 for item in items)
    assert all(len(error["detail"]) <= 120 for item in items for error in item["errors"])


def test_one_poisoned_row_in_a_thousand_hurts_nobody(lab: Lab) -> None:
    rows = [row() for _ in range(1000)]
    rows[500]["setup"] = {"model": "a\x00b"}

    counts = post(lab, envelope(*rows)).get_json()["counts"]

    assert (counts["accepted"], counts["rejected"]) == (999, 1)


@pytest.mark.parametrize(
    "change, pointer",
    [
        ({"probe_id": None}, "/probe_id"),
        ({"values": None}, "/values"),
        ({"kind": "Not a kind"}, "/kind"),
        ({"measured_at": "2026-01-01T00:00:00"}, "/measured_at"),
        ({"measured_at": "1999-01-01T00:00:00Z"}, "/measured_at"),
        ({"hostname": "node-7"}, "/hostname"),
        ({"gpu": {"name": "A10", "serial": "1"}}, "/gpu/serial"),
        ({"gpu": {"name": "A10", "count": 0}}, "/gpu/count"),
        ({"gpu": "A10"}, "/gpu"),
        ({"software": {"runtime": "http://node-7:8000"}}, "/software/runtime"),
        ({"setup": {"model": "/data/llama"}}, "/setup/model"),
        ({"setup": {"command": "vllm serve --model=/data/x"}}, "/setup/command"),
        ({"setup": {"tensor_parallel": "2"}}, "/setup/tensor_parallel"),
        ({"setup": {"tensor_paralel": 2}}, "/setup/tensor_paralel"),
        ({"setup": {"model": "\ud800"}}, "/setup/model"),
        ({"values": {}}, "/values"),
        ({"values": {"access": "read"}}, "/values"),
        ({"values": {"bytes_per_second": 0}}, "/values/bytes_per_second"),
        ({"values": {"bytes_per_second": True}}, "/values/bytes_per_second"),
        ({"values": {"bytes_per_second": 2**60, "count": 2**63}}, "/values/count"),
        ({"values": {"bytes_per_second": 1, "hostname": "x"}}, "/values/hostname"),
        ({"values": {"bytes_per_second": 1, "note": "/etc/passwd"}}, "/values/note"),
        ({"values": {"bytes_per_second": 1, "deep": [[[[[1]]]]]}}, "/values/deep/0/0/0"),
        ({"samples": [1] * 201}, "/samples"),
        ({"samples": [1, "2"]}, "/samples/1"),
        ({"kind": "decode_step", "values": {"seconds": -0.1}}, "/values/seconds"),
        ({"kind": "kv_allocation", "values": {"tokens": [2, 1], "bytes": [1, 2]}}, "/values/tokens"),
        ({"kind": "kv_allocation", "values": {"tokens": [1, 2]}}, "/values"),
        (
            {"kind": "batch_ceiling", "values": {"passed_sequences": 9, "failed_sequences": 9}},
            "/values/failed_sequences",
        ),
        ({"kind": "all_reduce", "values": {"bytes": 1, "ranks": 1, "seconds": 1}}, "/values/ranks"),
        ({"kind": "matmul_rate", "values": {"flops_per_second": 1}}, "/values"),
        ({"kind": "decode_step", "values": {"seconds": 1, "fit": {"points": -1}}}, "/values/fit/points"),
    ],
)
def test_a_row_that_is_not_valid_is_named_by_pointer(lab: Lab, change: dict[str, Any], pointer: str) -> None:
    found = lab.upload(row(**change), row())

    assert verdicts(found) == ["rejected", "accepted"]
    assert found.get_json()["items"][0]["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_json_is_no_upload(lab: Lab, value: float) -> None:
    problem(post(lab, envelope(row(values={"bytes_per_second": value}))), 400, "malformed-json")


def test_a_known_kind_with_values_of_a_later_release_is_kept(lab: Lab) -> None:
    sent = row(values={"bytes_per_second": 2.9e12, "stride_bytes": 64, "mode": "streamed", "warm": True})

    assert lab.counts(sent) == {"accepted": 1}
    assert lab.client.get(f"/measurements/{sent['id']}").get_json()["values"] == sent["values"]


def test_clocks_that_count_nanoseconds_are_read_to_the_microsecond(lab: Lab) -> None:
    sent = row(measured_at="2026-11-01T10:00:00.123456789+02:00")

    assert lab.counts(sent) == {"accepted": 1}
    assert lab.client.get(f"/measurements/{sent['id']}").get_json()["measured_at"] == "2026-11-01T08:00:00.123456Z"
    assert lab.counts({**sent, "measured_at": "2026-11-01T08:00:00.123456Z"}) == {"duplicate": 1}


def test_a_query_beside_an_upload_is_refused(lab: Lab) -> None:
    answer = lab.client.post("/measurements?dry_run=true", json={"items": [row()]}, headers=lab.probe)

    assert problem(answer, 422, "validation-error")["errors"][0]["pointer"] == "/dry_run"

    answer = lab.client.post("/measurements?a/b~c=1", json={"items": [row()]}, headers=lab.probe)
    assert problem(answer, 422, "validation-error")["errors"][0]["pointer"] == "/a~1b~0c"


def test_a_token_may_send_so_much_a_minute_and_no_more(sqlite: "Databases") -> None:
    limits = {"KVQUOTE_UPLOAD_ROWS_PER_MINUTE": "3", "KVQUOTE_UPLOAD_BYTES_PER_MINUTE": "100000"}
    with sqlite.migrated() as url, new_lab(url, **limits) as lab:
        assert lab.counts(row(), row()) == {"accepted": 2}
        refused = lab.upload(row(), row())

        problem(refused, 429, "upload-budget")
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert lab.stored() == 2
        assert lab.counts(row()) == {"accepted": 1}


def test_an_upload_waits_for_nobody_who_holds_the_database(sqlite: "Databases") -> None:
    from service.api.services import services_of
    from service.storage.database import writing

    with sqlite.migrated() as url, new_lab(url, KVQUOTE_DATABASE_TIMEOUT_SECONDS="0.2") as lab:
        lab.upload(row())
        with writing(services_of(lab.app).engine):
            answer = lab.upload(row())
            listed = lab.client.get("/measurements")

        assert problem(answer, 503, "database-unavailable")
        assert answer.headers["Retry-After"] == "1"
        assert listed.status_code == 200
        assert lab.counts(row()) == {"accepted": 1}
