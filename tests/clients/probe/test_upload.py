"""Uploads: each row is stored once and leaves the spool only for a verdict, whatever the network does."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquote_client import Transport
from kvquote_probe.spool import Answered, Kept, Spool
from kvquote_probe.upload import End, Report, Timing, Uploader, _wait_seconds, body_of
from tests.clients.probe.fake_service import (
    FakeService,
    Fault,
    fake_service,
    half_a_reply,
    late,
    no_document,
    other_rows,
    page,
    reset,
    status,
    too_few,
)


@pytest.fixture
def service() -> Iterator[FakeService]:
    with fake_service() as service:
        yield service


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path) as spool:
        yield spool


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def filled(spool: Spool, count: int, **more: object) -> list[dict[str, Any]]:
    rows = [
        {"id": str(uuid4()), "kind": "memory_bandwidth", "values": {"bytes_per_second": n}, **more}
        for n in range(count)
    ]
    spool.add(rows)
    return rows


def upload(
    spool: Spool, url: str, patience: float = 1000, clock: Clock | None = None
) -> tuple[Report, list[str], Clock]:
    said: list[str] = []
    clock = clock or Clock()
    with Transport(url, "kvq_token", retries=0, timeout=(5, 2)) as transport, spool.uploading():
        report = Uploader(spool, transport, said.append, patience, Timing(clock, clock.sleep)).run()
    return report, said, clock


def test_it_sends_what_waits_in_batches_and_keeps_nothing_that_is_answered(spool: Spool, service: FakeService) -> None:
    rows = filled(spool, 2500)

    report, said, clock = upload(spool, service.url)

    assert report == Report(Counter(accepted=2500), End.DONE)
    assert [row for body in service.bodies for row in body["items"]] == rows
    assert [len(body["items"]) for body in service.bodies] == [1000, 1000, 500]
    assert (spool.batch(), said, clock.slept) == ([], [], [])


def test_a_body_is_gzip_and_says_when_it_was_sent_and_by_whom(spool: Spool, service: FakeService) -> None:
    filled(spool, 1)

    upload(spool, service.url)

    assert service.headers_seen[0]["Content-Encoding"] == "gzip"
    assert service.headers_seen[0]["Authorization"] == "Bearer kvq_token"
    assert service.bodies[0]["sent_at"].endswith("Z")


def test_nothing_is_sent_where_nothing_waits(spool: Spool, service: FakeService) -> None:
    report, _, _ = upload(spool, service.url)

    assert report == Report(end=End.DONE)
    assert service.bodies == []


FAULTS = {
    "500": status(500),
    "502 page": page(502),
    "503": status(503),
    "429": status(429),
    "500 after storing": status(500, stored=True),
    "reset after storing": reset,
    "half a reply": half_a_reply,
    "a reply to others": other_rows,
    "too few verdicts": too_few,
    "no document": no_document,
    "a page": page(200),
    "no reply": late(0.7),
}


@pytest.mark.parametrize("fault", list(FAULTS.values()), ids=list(FAULTS))
def test_a_fault_is_survived_with_each_row_stored_once(spool: Spool, service: FakeService, fault: Fault) -> None:
    rows = filled(spool, 20)
    service.faults = [fault, fault]

    report, said, clock = upload(spool, service.url)

    assert report.end is End.DONE
    assert sum(report.counts.values()) == 20
    assert list(service.rows.values()) == rows
    assert [body["items"] for body in service.bodies] == [rows] * 3
    assert len(said) == len(clock.slept) == 2
    assert spool.batch() == []


@pytest.mark.parametrize("header, wait", [("7", 7), ("0", 0)])
@pytest.mark.parametrize("code", [429, 503])
def test_retry_after_is_obeyed(spool: Spool, service: FakeService, code: int, header: str, wait: float) -> None:
    filled(spool, 1)
    service.faults = [status(code, Retry_After=header)]

    _, _, clock = upload(spool, service.url)

    (slept,) = clock.slept
    # A service that asks for no wait at all gets a short one: it would be asked without a pause else.
    assert (slept == wait) if wait else 0.5 <= slept <= 1


def test_patience_ends_before_a_wait_that_is_longer_and_the_rows_stay(spool: Spool, service: FakeService) -> None:
    rows = filled(spool, 3)
    service.faults = [status(429, Retry_After="600")]

    report, _, clock = upload(spool, service.url, patience=60)

    assert report.end is End.LATER
    assert "429" in str(report.why)
    assert clock.slept == []
    assert [kept.id for kept in spool.batch()] == [row["id"] for row in rows]


def test_it_goes_on_as_long_as_some_rows_are_answered(spool: Spool, service: FakeService) -> None:
    filled(spool, 3000)
    service.most_rows = 1000
    service.faults = [status(429, Retry_After="50")]
    clock = Clock()
    answer = service.judge

    def more_faults(row: dict[str, Any]) -> tuple[str, str | None]:
        if len(service.rows) % 1000 == 999:
            service.faults = [status(429, Retry_After="50")]
        return answer(row)

    service.judge = more_faults
    report, _, clock = upload(spool, service.url, patience=60, clock=clock)

    assert report.end is End.DONE
    assert clock.slept == [50, 50, 50]


def test_a_day_offline_is_resumed(spool: Spool, service: FakeService) -> None:
    rows = filled(spool, 5)
    url = service.url
    service.shutdown()
    service.server_close()

    report, said, clock = upload(spool, url, patience=3600)

    assert report.end is End.LATER
    assert 3000 < clock.now <= 3600
    assert len(said) == len(clock.slept) < 100
    with fake_service() as back:
        again, _, _ = upload(spool, back.url)
        assert again == Report(Counter(accepted=5), End.DONE)
        assert back.bodies[0]["items"] == rows


def test_what_was_answered_is_recorded_where_it_is_stopped(
    spool: Spool, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told(BaseException):
        """To stop."""

    rows = filled(spool, 2500)
    send = Transport.request
    sent: list[object] = []

    def stopped(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - as the transport's own
        sent.append(args)
        if len(sent) == 3:
            raise Told
        return send(*args, **more)

    monkeypatch.setattr(Transport, "request", stopped)

    with pytest.raises(Told):
        upload(spool, service.url)

    assert [kept.id for kept in spool.batch()] == [row["id"] for row in rows[2000:]]
    assert spool.counts().answered == {"accepted": 2000}


def test_answers_are_recorded_many_at_once(spool: Spool, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvquote_probe.upload.RECORDED_ROWS", 2000)
    filled(spool, 4500)
    settle = Spool.settle
    recorded: list[int] = []

    def noting(spool: Spool, answers: list[Answered]) -> None:
        recorded.append(len(answers))
        settle(spool, answers)

    monkeypatch.setattr(Spool, "settle", noting)

    upload(spool, service.url)

    assert recorded == [2000, 2000, 500]


@pytest.mark.parametrize("code", [401, 403, 404, 405])
def test_what_only_a_person_can_mend_ends_it_at_once(spool: Spool, service: FakeService, code: int) -> None:
    filled(spool, 3)
    service.faults = [status(code)]

    report, _, clock = upload(spool, service.url)

    assert report.end is End.REFUSED
    assert str(code) in str(report.why)
    assert clock.slept == []
    assert spool.counts()[:2] == (3, 0)


def test_refused_rows_are_set_aside_and_the_others_arrive(spool: Spool, service: FakeService) -> None:
    rows = filled(spool, 10)
    bad, known = rows[3]["id"], rows[7]["id"]
    service.judge = lambda row: {bad: ("rejected", "/values: no"), known: ("conflict", "its id")}.get(
        row["id"], ("accepted", None)
    )

    report, said, _ = upload(spool, service.url)

    assert report.counts == {"accepted": 8, "rejected": 1, "conflict": 1}
    assert report.set_aside == 2
    assert [(row.id, row.verdict, row.detail) for row in spool.aside()] == [
        (bad, "rejected", "/values: no"),
        (known, "conflict", "its id"),
    ]
    assert len(said) == 2
    assert "/values: no" in said[0]


def test_reasons_that_a_long_reply_leaves_out_are_asked_for(spool: Spool, service: FakeService) -> None:
    filled(spool, 220)
    service.judge = lambda _row: ("rejected", "/values: no")

    report, said, _ = upload(spool, service.url)

    assert report.counts == {"rejected": 220}
    assert {row.detail for row in spool.aside()} == {"/values: no"}
    assert [len(body["items"]) for body in service.bodies] == [220, 50, 50, 50, 20]
    assert len(said) == 20


def test_a_body_that_is_too_large_is_halved(spool: Spool, service: FakeService) -> None:
    rows = filled(spool, 1000)
    service.most_rows = 300

    report, _, clock = upload(spool, service.url)

    assert report == Report(Counter(accepted=1000), End.DONE)
    assert list(service.rows.values()) == rows
    assert [len(body["items"]) for body in service.bodies[:3]] == [1000, 500, 250]
    assert clock.slept == []


def test_a_row_that_makes_the_service_refuse_the_body_is_found_and_set_aside(
    spool: Spool, service: FakeService
) -> None:
    rows = filled(spool, 16)
    poison = rows[5]["id"]

    def refuse(handler: Any, envelope: dict[str, Any]) -> bool:  # noqa: ANN401
        service.faults.append(refuse)
        if poison in {row["id"] for row in envelope["items"]}:
            handler.reply(400, {"type": "/problems/malformed-json", "title": "Malformed", "status": 400})
        else:
            handler.reply(200, {"items": service.take(envelope["items"])})
        return False

    service.faults = [refuse]
    report, _, _ = upload(spool, service.url)

    assert report.counts == {"accepted": 15, "rejected": 1}
    assert [row.id for row in spool.aside()] == [poison]
    assert poison not in service.rows


def test_a_service_that_takes_nothing_does_not_empty_the_spool(spool: Spool, service: FakeService) -> None:
    filled(spool, 100)
    service.faults = [status(400)] * 1000

    report, _, _ = upload(spool, service.url)

    assert report.end is End.REFUSED
    assert spool.counts()[:2] == (80, 20)


def test_a_page_with_status_400_says_nothing_of_the_rows(spool: Spool, service: FakeService) -> None:
    filled(spool, 4)
    service.faults = [page(400)]

    report, _, _ = upload(spool, service.url)

    assert report.end is End.REFUSED
    assert spool.counts()[:2] == (4, 0)


def test_where_gzip_is_not_taken_it_is_sent_plain(spool: Spool, service: FakeService) -> None:
    filled(spool, 2)
    service.faults = [status(415)]

    report, _, _ = upload(spool, service.url)

    assert report.end is End.DONE
    assert "Content-Encoding" not in service.headers_seen[1]


def test_a_verdict_of_a_later_service_is_set_aside_and_not_lost(spool: Spool, service: FakeService) -> None:
    (row,) = filled(spool, 1)
    service.judge = lambda _row: ("postponed", None)

    upload(spool, service.url)

    (aside,) = spool.aside()
    assert aside.id == row["id"]
    assert "postponed" in str(aside.detail)


def test_ids_are_the_same_on_every_try_and_the_time_of_sending_is_not_part_of_a_row(spool: Spool) -> None:
    filled(spool, 3)

    first, second = (body_of(spool.batch()) for _ in range(2))

    assert first.partition(b'"items"')[2] == second.partition(b'"items"')[2]


def test_waits_double_up_to_a_minute_and_differ_between_probes() -> None:
    for failures, longest in ((0, 1), (1, 2), (3, 8), (10, 60), (5000, 60)):
        waits = {_wait_seconds(failures) for _ in range(20)}

        assert all(longest / 2 <= wait <= longest for wait in waits)
        assert len(waits) > 1


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=5))
def test_texts_of_any_kind_are_sent_as_they_are_kept(notes: list[str]) -> None:
    import json

    from kvquote_probe.rows import encoded

    kept = [Kept(n, str(n), encoded({"id": str(n), "note": note})) for n, note in enumerate(notes)]

    assert [row["note"] for row in json.loads(body_of(kept))["items"]] == notes
