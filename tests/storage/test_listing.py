from collections.abc import Iterable

import pytest

from service.domain.catalog import CatalogKind
from service.storage.catalog import Change
from service.storage.listing import Listing
from service.storage.snapshot import Snapshot
from tests.storage.entries import GPU, MODEL, gpu_change, model_change
from tests.storage.test_snapshot import delta

CARDS = Snapshot.empty().advanced(
    delta(
        1,
        gpu_change("a100", advertised_bytes=80, aliases=["NVIDIA A100"], release_year=2020),
        gpu_change("h100", advertised_bytes=80, aliases=["NVIDIA H100 80GB"], release_year=2022),
        gpu_change("h200", advertised_bytes=141, architecture="hopper"),
        gpu_change("mi300x", advertised_bytes=192, vendor="amd"),
        gpu_change("t4", advertised_bytes=16, mig={"parent": "a100", "profile": "1g.5gb"}),
    )
)


def ids(found: tuple[Iterable[object], bool]) -> list[str]:
    return [entry.id for entry in found[0]]  # type: ignore[attr-defined]


def listed(**asked: object) -> list[str]:
    return ids(CARDS.page(GPU, Listing(limit=10, **asked)))  # type: ignore[arg-type]


def test_all_are_listed_in_the_order_of_ids() -> None:
    assert listed() == ["a100", "h100", "h200", "mi300x", "t4"]


@pytest.mark.parametrize(
    "asked, expected",
    [
        ({"equal": {"vendor": ["amd"]}}, ["mi300x"]),
        ({"equal": {"vendor": ["amd", "nvidia"], "architecture": ["hopper"]}}, ["h200"]),
        ({"equal": {"vendor": ["'; drop table"]}}, []),
        ({"equal": {"mig": [True]}}, ["t4"]),
        ({"least": {"memory_bytes": 80}}, ["a100", "h100", "h200", "mi300x"]),
        ({"most": {"memory_bytes": 80}}, ["a100", "h100", "t4"]),
        ({"least": {"memory_bytes": 81}, "most": {"memory_bytes": 141}}, ["h200"]),
        ({"least": {"release_year": 0}}, ["a100", "h100"]),
        ({"most": {"release_year": 9999}}, ["a100", "h100"]),
        ({"text": "nvidia"}, ["a100", "h100"]),
        ({"text": "00"}, ["a100", "h100", "h200", "mi300x"]),
        ({"text": "%"}, []),
        ({"text": "_"}, []),
        ({"text": "h", "equal": {"architecture": ["hopper"]}}, ["h200"]),
    ],
)
def test_only_what_is_asked_for_is_listed(asked: dict[str, object], expected: list[str]) -> None:
    assert listed(**asked) == expected


def test_pages_follow_each_other_without_a_gap() -> None:
    pages, after = [], ""
    for _ in range(3):
        entries, more = CARDS.page(GPU, Listing(limit=2, after=after))
        after = entries[-1].id
        pages.append(([entry.id for entry in entries], more))

    assert pages == [(["a100", "h100"], True), (["h200", "mi300x"], True), (["t4"], False)]


def test_a_page_goes_on_where_an_entry_has_gone() -> None:
    assert listed(after="h1") == ["h100", "h200", "mi300x", "t4"]
    assert listed(after="zzz") == []


def test_a_full_last_page_says_that_none_follows() -> None:
    assert CARDS.page(GPU, Listing(limit=5))[1] is False


def test_an_entry_that_changed_is_found_by_what_it_is_now() -> None:
    later = CARDS.advanced(delta(2, gpu_change("t4", advertised_bytes=99), Change(GPU, "a100", None)))

    assert ids(later.page(GPU, Listing(limit=10, least={"memory_bytes": 90}))) == ["h200", "mi300x", "t4"]
    assert ids(later.page(GPU, Listing(limit=10, text="nvidia"))) == ["h100"]
    assert listed(least={"memory_bytes": 90}) == ["h200", "mi300x"]


def test_an_entry_that_says_little_is_listed_too() -> None:
    catalog = Snapshot.empty().advanced(delta(1, *(Change(kind, "x", {"id": "x"}) for kind in CatalogKind)))

    assert [ids(catalog.page(kind, Listing(limit=1))) for kind in CatalogKind] == [["x"]] * len(CatalogKind)


def test_a_model_can_be_asked_for_by_whether_a_reader_knows_it() -> None:
    unknown = model_change("later", config={"model_type": "of-tomorrow"})
    catalog = Snapshot.empty().advanced(delta(1, model_change("tiny"), unknown))

    assert ids(catalog.page(MODEL, Listing(limit=9, equal={"has_reader": [False]}))) == ["later"]
