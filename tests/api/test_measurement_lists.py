"""Finding measurements and probes again, on both databases, with the verdicts of the present catalog."""

import csv
import io
import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from service.api.paging import make_cursor
from tests.api.asking import problem
from tests.api.desk import bearer, card
from tests.api.probing import PROBE, Lab, impossible_row, new_lab, row, unmatched_row


@pytest.fixture
def own_lab(database_url: str) -> Iterator[Lab]:
    """A lab whose catalog a test may change."""
    with new_lab(database_url) as lab:
        yield lab


def test_filters_narrow_the_list(lab: Lab) -> None:
    other = str(uuid4())
    lab.upload(
        row(measured_at="2026-10-01T00:00:00Z"),
        row(gpu={"name": "A10"}, values={"bytes_per_second": 5e11}),
        row(kind="prefill", values={"seconds": 1}, setup={"model": "llama-2-7b"}, software={"engine": "vLLM"}),
        row(probe_id=other),
        unmatched_row(),
        impossible_row(),
    )

    def count(query: str) -> int:
        return len(lab.listed(query))

    assert count("") == 6
    assert (count("gpu=h100"), count("gpu=H100-SXM-80GB"), count("gpu=a10,h100")) == (4, 4, 5)
    assert (count("gpu=rtx%209090"), count("gpu=nobody")) == (1, 0)
    assert (count("model=meta-llama/llama-2-7b-hf"), count("engine=vllm"), count("kind=prefill,power")) == (1, 1, 1)
    assert (count(f"probe_id={other}"), count("since=2026-11-01T10:00:00Z"), count("until=2026-11-01T10:00:00Z")) == (
        1,
        5,
        1,
    )
    assert (count("verdict=quarantined"), count("verdict=accepted,unmatched")) == (1, 5)


@pytest.mark.parametrize(
    "query, pointer",
    [
        ("verdict=rejected", "/verdict/0"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "/since"),
        ("since=yesterday", "/since"),
        ("probe_id=7", "/probe_id"),
        ("limit=0", "/limit"),
        ("cursor=AAAAAAAAAAAA", "/cursor"),
        ("colour=red", "/colour"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(lab: Lab, query: str, pointer: str) -> None:
    found = problem(lab.client.get(f"/measurements?{query}"), 422, "validation-error")

    assert found["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    "path, key",
    [
        ("/measurements", "2026-11-30T12:00:00+00:00\n9223372036854775808"),
        ("/measurements", "2026-11-30T12:00:00+00:00\n1_0"),
        ("/measurements", "2026-11-30T12:00:00\n1"),
        ("/measurements", "0001-01-01T00:00:00+14:00\n1"),
        ("/measurements", "2026-11-30T12:00:00+00:00"),
        ("/probes", "7"),
        ("/calibrations", "reserve\nkey\n9223372036854775808"),
        ("/calibrations", "re\0serve\nkey\n1"),
        ("/accuracy", "\0\n\n\n\n"),
    ],
)
def test_a_cursor_that_somebody_made_up_is_refused(lab: Lab, path: str, key: str) -> None:
    response = lab.client.get(path, query_string={"cursor": make_cursor(path, {}, key)})

    assert problem(response, 422, "validation-error")["errors"][0]["pointer"] == "/cursor"


def test_pages_hold_each_row_once_also_where_times_are_equal(lab: Lab) -> None:
    sent = [row(measured_at=f"2026-11-0{1 + number % 3}T00:00:00Z") for number in range(23)]
    lab.upload(*sent)

    found = lab.listed("limit=4")

    assert sorted(one["id"] for one in found) == sorted(one["id"] for one in sent)
    assert [one["measured_at"] for one in found] == sorted((one["measured_at"] for one in found), reverse=True)


def test_a_list_is_also_csv_and_lines(lab: Lab) -> None:
    lab.upload(row(), row())

    table = list(csv.DictReader(io.StringIO(lab.client.get("/measurements?format=csv").text)))
    lines = lab.client.get("/measurements?limit=1", headers={"Accept": "application/x-ndjson"})

    assert [json.loads(cell["values"])["access"] for cell in table] == ["read", "read"]
    assert [json.loads(line)["kind"] for line in lines.text.splitlines()] == ["memory_bandwidth"]
    assert 'rel="next"' in lines.headers["Link"]


def test_an_unchanged_list_is_not_sent_again(lab: Lab) -> None:
    lab.upload(row())
    tag = lab.client.get("/measurements").headers["ETag"]

    assert lab.client.get("/measurements", headers={"If-None-Match": tag}).status_code == 304
    lab.upload(row())
    assert lab.client.get("/measurements", headers={"If-None-Match": tag}).status_code == 200


def test_probes_say_who_reported_and_how_much_was_accepted(lab: Lab) -> None:
    other = str(uuid4())
    lab.upload(row(), row(measured_at="2026-11-02T00:00:00Z"), unmatched_row(), impossible_row())
    lab.upload(row(probe_id=other))

    first, second = sorted(
        lab.client.get("/probes").get_json()["items"], key=lambda probe: str(probe["probe_id"]) != PROBE
    )

    assert {name: first[name] for name in ("probe_id", "measurements", "accepted", "unmatched", "quarantined")} == {
        "probe_id": PROBE,
        "measurements": 4,
        "accepted": 2,
        "unmatched": 1,
        "quarantined": 1,
    }
    assert (first["accepted_share"], first["last_measured_at"]) == (0.5, "2026-11-02T00:00:00Z")
    assert second["probe_id"] == other


def test_probes_come_in_pages(lab: Lab) -> None:
    lab.upload(*(row(probe_id=str(uuid4())) for _ in range(5)))
    found, path = [], "/probes?limit=2"
    while path:
        page = lab.client.get(path).get_json()
        found += [probe["probe_id"] for probe in page["items"]]
        path = f"/probes?limit=2&cursor={page['next_cursor']}" if page["next_cursor"] else ""

    assert len(found) == len(set(found)) == 5


def test_what_the_catalog_learns_is_matched(own_lab: Lab) -> None:
    from service.storage.tokens import Scope

    sent = [unmatched_row() for _ in range(3)]
    own_lab.upload(row(), *sent)
    new = {**card("rtx-9090"), "aliases": ["RTX 9090"]}
    new["memory"]["bandwidth_bytes_per_second"] = 3e12
    writer = {**bearer(own_lab.app, Scope.CATALOG_WRITE), "If-None-Match": "*"}

    assert own_lab.client.put("/gpus/rtx-9090", json=new, headers=writer).status_code == 201

    found = own_lab.client.get(f"/measurements/{sent[0]['id']}").get_json()
    assert (found["verdict"], found["gpu_id"]) == ("accepted", "rtx-9090")
    assert len(own_lab.listed("verdict=accepted")) == 4
    assert own_lab.listed("verdict=unmatched") == []
    assert len(own_lab.listed("gpu=rtx-9090")) == 3
    assert own_lab.client.get("/probes").get_json()["items"][0]["accepted_share"] == 1


def test_a_corrected_figure_judges_again(own_lab: Lab) -> None:
    from service.storage.tokens import Scope

    own_lab.upload(row(), row(gpu={"name": "A10"}, values={"bytes_per_second": 5e11}))
    entry = own_lab.client.get("/gpus/h100-sxm-80gb")
    facts = entry.get_json()["facts"]
    facts["memory"]["bandwidth_bytes_per_second"] = 2e12
    writer = {**bearer(own_lab.app, Scope.CATALOG_WRITE), "If-Match": entry.headers["ETag"]}

    assert own_lab.client.put("/gpus/h100-sxm-80gb", json=facts, headers=writer).status_code == 200

    assert [found["gpu_id"] for found in own_lab.listed("verdict=quarantined")] == ["h100-sxm-80gb"]
    assert own_lab.client.get("/probes").get_json()["items"][0]["quarantined"] == 1
