"""Lists that do not end, or are none."""

import pytest

from kvquote_client import BadAnswer, Client
from kvquote_client.measurements import LARGEST_BATCH_BYTES, batches
from tests.clients.faulty import Faulty, good

ROW = {"id": "a", "later": {"more": 1}}


def test_nothing_is_asked_before_a_row_is_wanted(faulty: Faulty) -> None:
    faulty.says(good({"items": [ROW], "next_cursor": None}))
    with Client(faulty.url) as client:
        rows = client.gpus.list()

        assert faulty.asked == []
        assert [row.raw for row in rows] == [ROW]
        assert [row.raw for row in rows] == [ROW]
    assert len(faulty.asked) == 2


def test_the_next_page_is_asked_with_the_same_filters(faulty: Faulty) -> None:
    faulty.says(good({"items": [ROW], "next_cursor": "c+/"}), good({"items": [], "next_cursor": None}))
    with Client(faulty.url) as client:
        assert len(list(client.gpus.list(vendor=["amd", "x&y"], mig=False, limit=1))) == 1

    assert [request.path for request in faulty.asked] == [
        "/gpus?vendor=amd%2Cx%26y&mig=false&limit=1",
        "/gpus?vendor=amd%2Cx%26y&mig=false&limit=1&cursor=c%2B%2F",
    ]


def test_a_list_that_leads_in_a_circle_is_left(faulty: Faulty) -> None:
    faulty.says(good({"items": [ROW], "next_cursor": "c"}))

    with pytest.raises(BadAnswer, match="circle"), Client(faulty.url) as client:
        list(client.gpus.list())


@pytest.mark.parametrize(
    "document",
    [[], {}, {"items": {}}, {"items": [5]}, {"items": [{"no": "id"}]}, {"items": [], "next_cursor": {"a": 1}}],
    ids=str,
)
def test_what_is_no_list_is_called_so(faulty: Faulty, document: object) -> None:
    faulty.says(good(document))

    with pytest.raises(BadAnswer), Client(faulty.url) as client:
        list(client.gpus.list())


def test_rows_are_sent_in_batches_that_the_service_takes() -> None:
    row = b"x" * (LARGEST_BATCH_BYTES // 3)
    sizes = [len(batch) for batch in batches([row] * 7)]

    assert sum(sizes) == 7
    assert max(sizes) < 4
    assert [len(batch) for batch in batches([b"1"] * 2001)] == [1000, 1000, 1]
    assert [len(batch) for batch in batches([b"x" * (LARGEST_BATCH_BYTES + 1), b"1"])] == [1, 1]
