from typing import Any

import pytest

from service.domain.catalog import CatalogKind, Entry
from service.storage.catalog import Change
from service.storage.entry_rules import measured_facts_lost, taken_names, unknown_references, users_of
from service.storage.snapshot import Snapshot
from tests.storage.entries import GPU, MODEL, gpu_change, gpu_facts, model_change, model_facts
from tests.storage.test_snapshot import delta

INSTANCE, DTYPE = CatalogKind.INSTANCE, CatalogKind.DTYPE
CATALOG = Snapshot.empty().advanced(
    delta(
        1,
        gpu_change("a100", aliases=["NVIDIA A100"]),
        gpu_change("slice", mig={"parent": "a100"}),
        model_change("tiny", hub_id="someone/Tiny"),
        Change(INSTANCE, "cloud-a100", {"id": "cloud-a100", "gpu": "a100"}),
        Change(DTYPE, "bf16", {"id": "bf16", "aliases": ["bfloat16"]}),
    )
)
MEASURED = {
    "name": "A100",
    "memory": {
        "advertised_bytes": 80,
        "visible_bytes": 79,
        "visible_source": "measured",
        "visible_range_bytes": [78, 79],
        "driver_total_bytes": 82,
        "driver_total_source": "printed",
    },
}


def gpu(gpu_id: str, **facts: Any) -> Entry:  # noqa: ANN401  # facts are documents
    return Entry(GPU, gpu_id, gpu_facts(gpu_id, **facts), 0)


@pytest.mark.parametrize(
    "entry, pointer, owner",
    [
        (gpu("h100", aliases=["H100", "nvidia a100"]), "/aliases/1", "a100"),
        (gpu("h100", aliases=["A100"]), "/aliases/0", "a100"),
        (Entry(MODEL, "small", model_facts("small", hub_id="Someone/tiny"), 0), "/hub_id", "tiny"),
        (Entry(DTYPE, "bfloat16", {"id": "bfloat16"}, 0), "/id", "bf16"),
    ],
)
def test_a_name_that_leads_elsewhere_is_taken(entry: Entry, pointer: str, owner: str) -> None:
    (fault,) = taken_names(CATALOG, entry)

    assert (fault.pointer, fault.nearest) == (pointer, (owner,))
    assert f"already leads to {entry.kind} {owner}" in fault.detail


@pytest.mark.parametrize("entry", [gpu("a100", aliases=["NVIDIA A100", "A100"]), gpu("h100", aliases=["tiny", "bf16"])])
def test_an_entry_keeps_its_own_names_and_may_share_those_of_other_kinds(entry: Entry) -> None:
    assert list(taken_names(CATALOG, entry)) == []


def with_memory(**memory: object) -> dict[str, Any]:
    return {**MEASURED, "memory": {**MEASURED["memory"], **memory}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "after, pointers",
    [
        (MEASURED, []),
        ({**MEASURED, "name": "renamed"}, []),
        (with_memory(driver_total_bytes=81, advertised_bytes=81), []),
        (with_memory(visible_bytes=80), ["/memory/visible_bytes"]),
        (with_memory(visible_source="modelled"), ["/memory/visible_source"]),
        (with_memory(visible_bytes=1, visible_source=None), ["/memory/visible_bytes", "/memory/visible_source"]),
        ({"memory": 1}, ["/memory/visible_bytes", "/memory/visible_source", "/memory/visible_range_bytes"]),
        ({}, ["/memory/visible_bytes", "/memory/visible_source", "/memory/visible_range_bytes"]),
    ],
)
def test_what_was_measured_is_not_lost_without_a_word(after: dict[str, Any], pointers: list[str]) -> None:
    assert [fault.pointer for fault in measured_facts_lost(MEASURED, after)] == pointers


def test_what_was_modelled_may_be_measured() -> None:
    assert list(measured_facts_lost(with_memory(visible_source="modelled"), MEASURED)) == []


def test_a_lost_measurement_is_named_with_its_values() -> None:
    (fault,) = measured_facts_lost(MEASURED, with_memory(visible_bytes=80))

    assert fault.detail == "visible_bytes: 79 -> 80. The stored one was measured."


@pytest.mark.parametrize(
    "entry, pointer",
    [
        (Entry(INSTANCE, "x", {"id": "x", "gpu": "b200"}, 0), "/gpu"),
        (Entry(INSTANCE, "x", {"id": "x", "gpu": "NVIDIA A100"}, 0), "/gpu"),
        (Entry(MODEL, "x", {"id": "x", "checkpoint": {"dtype": "fp3"}}, 0), "/checkpoint/dtype"),
    ],
)
def test_an_entry_cannot_name_what_is_not_there(entry: Entry, pointer: str) -> None:
    assert [fault.pointer for fault in unknown_references(CATALOG, entry)] == [pointer]


def test_an_alias_in_place_of_an_id_is_answered_with_the_id() -> None:
    (fault,) = unknown_references(CATALOG, Entry(INSTANCE, "x", {"id": "x", "gpu": "NVIDIA A100"}, 0))

    assert fault.nearest == ("a100",)


def test_an_entry_may_name_what_is_there() -> None:
    assert list(unknown_references(CATALOG, Entry(INSTANCE, "x", {"id": "x", "gpu": "a100"}, 0))) == []
    assert list(unknown_references(CATALOG, gpu("x"))) == []


def test_what_others_name_is_used_by_them() -> None:
    assert users_of(CATALOG, gpu("a100")) == ("instance cloud-a100", "gpu slice")
    assert users_of(CATALOG, Entry(DTYPE, "bf16", {}, 1)) == ("model tiny",)
    assert users_of(CATALOG, gpu("slice")) == ()
    assert users_of(CATALOG, Entry(MODEL, "tiny", {}, 1)) == ()
