from typing import Any

import pytest

from service.domain.catalog import CatalogKind, Entry
from service.domain.catalog_rows import FILTERS, filter_values, flat_row

CARD: dict[str, Any] = {
    "name": "A card",
    "vendor": "nvidia",
    "memory": {"advertised_bytes": 80, "visible_bytes": 79, "visible_source": "measured"},
    "peak_flops_per_second": {"bf16": 312, "fp8": None},
    "mig": ["a-slice"],
}


def row(kind: CatalogKind, **facts: object) -> dict[str, Any]:
    return flat_row(Entry(kind, "x", facts, 7))


@pytest.mark.parametrize("kind", CatalogKind)
def test_a_row_begins_with_the_id_and_ends_with_the_revision(kind: CatalogKind) -> None:
    assert list(row(kind))[:2] == ["id", "name"]
    assert list(row(kind))[-1] == "revision"
    assert (row(kind, name="X")["id"], row(kind, name="X")["name"], row(kind)["revision"]) == ("x", "X", 7)


@pytest.mark.parametrize("kind", CatalogKind)
def test_rows_are_flat_and_always_have_the_same_names(kind: CatalogKind) -> None:
    assert list(row(kind)) == list(row(kind, **CARD))
    assert not [value for value in row(kind, **CARD).values() if isinstance(value, list | dict)]


@pytest.mark.parametrize("kind", CatalogKind)
def test_filters_are_columns_and_their_values_stand_in_the_row(kind: CatalogKind) -> None:
    shown = row(kind, **CARD)

    assert filter_values(kind, CARD) == tuple(shown[name] for name in FILTERS[kind])


def test_a_card_shows_both_memories_and_each_peak() -> None:
    shown = row(CatalogKind.GPU, **CARD)

    assert (shown["memory_bytes"], shown["visible_memory_bytes"], shown["visible_memory_source"]) == (
        80,
        79,
        "measured",
    )
    assert (shown["peak_bf16_flops_per_second"], shown["peak_fp8_flops_per_second"]) == (312, None)


def test_a_card_that_can_be_sliced_is_no_slice() -> None:
    assert row(CatalogKind.GPU, **CARD)["mig"] is False


def test_a_slice_names_its_parent_and_profile() -> None:
    shown = row(CatalogKind.GPU, mig={"parent": "a100", "profile": "1g.10gb"})

    assert (shown["mig"], shown["mig_parent"], shown["mig_profile"]) == (True, "a100", "1g.10gb")


@pytest.mark.parametrize("model_type, known", [("llama", True), ("of-tomorrow", False), (None, False)])
def test_a_model_says_whether_a_reader_knows_it(model_type: str | None, known: bool) -> None:
    shown = row(CatalogKind.MODEL, config={"model_type": model_type})

    assert (shown["architecture"], shown["has_reader"]) == (model_type, known)


def test_the_bytes_of_a_file_go_before_an_estimate() -> None:
    both = {"dtype": "fp8", "weight_bytes": 2, "weight_bytes_estimate": 1}

    assert row(CatalogKind.MODEL, checkpoint=both)["weight_bytes"] == 2
    assert row(CatalogKind.MODEL, checkpoint=both | {"weight_bytes": None})["weight_bytes"] == 1


def test_an_instance_without_a_price_has_none() -> None:
    assert row(CatalogKind.INSTANCE, price=None)["price_usd_per_hour"] is None
    assert row(CatalogKind.INSTANCE, price={"usd_per_hour": 2.5})["price_usd_per_hour"] == 2.5


@pytest.mark.parametrize("bits, width", [(16, 16), ("65/8", 8.125), (4.5, 4.5), ("16/2", 8)])
def test_a_width_is_a_number_however_it_is_written(bits: str | float, width: float) -> None:
    shown = row(CatalogKind.DTYPE, weight={"element_bits": bits}, kv={"element_bits": bits})

    assert (shown["weight_element_bits"], shown["kv_element_bits"]) == (width, width)


def test_a_format_says_what_it_is_for() -> None:
    assert [row(CatalogKind.DTYPE, mix={"base": "q4_k"})[name] for name in ("weight", "kv", "gguf_mix")] == [
        True,
        False,
        True,
    ]


def test_an_engine_shows_its_newest_version_where_it_has_versions() -> None:
    shown = row(CatalogKind.ENGINE, releases={"published": ["0.10.2", "0.11.0"]})

    assert (shown["newest_version"], shown["known_versions"]) == ("0.11.0", 2)
    assert (row(CatalogKind.ENGINE)["newest_version"], row(CatalogKind.ENGINE)["known_versions"]) == (None, 0)


def test_an_engine_of_numbered_builds_shows_the_newest_as_it_is_written() -> None:
    shown = row(CatalogKind.ENGINE, builds={"newest": 11549, "read": [3400, 11549]})

    assert (shown["newest_version"], shown["known_versions"]) == ("b11549", 11549)
