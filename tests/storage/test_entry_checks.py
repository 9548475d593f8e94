"""Every kind of fault in an entry, against the schemas of the catalog itself."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from service.domain.catalog import CatalogKind, Entry
from service.storage.canonical import whole_numbers
from service.storage.catalog_schema import CatalogSchemas
from service.storage.catalog_yaml import read_yaml
from service.storage.entry_checks import MOST_FAULTS, entry_faults
from service.storage.migrations import data_folder

SCHEMAS = CatalogSchemas(data_folder("catalog") / "schema")
CARD, SMALL, MACHINE = "gpus/a100-sxm-80gb", "models/llama-2-7b", "instances/aws-p4d-24xlarge"


def facts(path: str) -> dict[str, Any]:
    read: dict[str, Any] = whole_numbers(read_yaml(data_folder("catalog") / f"{path}.yaml"))
    return read


def pointers(path: str, change: Callable[[dict[str, Any]], object]) -> list[str]:
    changed = facts(path)
    change(changed)
    kind = CatalogKind(path.partition("s/")[0])
    return [fault.pointer for fault in entry_faults(Entry(kind, path.rpartition("/")[2], changed, 0), SCHEMAS)]


def setting(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Set what a JSON pointer leads to."""

    def change(document: dict[str, Any]) -> None:
        *steps, last = path.strip("/").split("/")
        for step in steps:
            document = document[step]
        document[last] = value

    return change


@pytest.mark.parametrize("path", [CARD, SMALL, MACHINE, "dtypes/awq", "engines/none"])
def test_an_entry_of_the_catalog_is_well_formed(path: str) -> None:
    assert pointers(path, lambda _: None) == []


@pytest.mark.parametrize(
    "path, pointer, value",
    [
        (CARD, "/memory/advertised_bytes", 0),
        (CARD, "/memory/advertised_bytes", -1),
        (CARD, "/memory/advertised_bytes", 1.5),
        (CARD, "/memory/advertised_bytes", True),
        (CARD, "/memory/advertised_bytes", "80"),
        (CARD, "/memory/advertised_bytes", 2**63),
        (CARD, "/memory/visible_bytes", 2**51),
        (CARD, "/memory/bandwidth_bytes_per_second", 0),
        (CARD, "/memory/bandwidth_bytes_per_second", 5e-324),
        (CARD, "/memory/bandwidth_bytes_per_second", 1e308),
        (CARD, "/peak_flops_per_second/bf16", 5e-324),
        (CARD, "/peak_flops_per_second/bf16", 1e22),
        (CARD, "/l2_cache_bytes", -(2**63) - 1),
        (CARD, "/name", "A\0100"),
        (CARD, "/name", "A\u202e100"),
        (CARD, "/name", "A\u200b100"),
        (CARD, "/name", "x" * 201),
        (CARD, "/provenance/notes", "a\0b"),
        (CARD, "/provenance/notes", "\udfff"),
        (CARD, "/provenance/notes", "x" * 8001),
        (SMALL, "/parameters/count", 0),
        (SMALL, "/parameters/count", 2**53),
        (SMALL, "/context_tokens", 2**31 + 1),
        (SMALL, "/config/hidden_size", 2**53),
        (SMALL, "/config/rope_theta", 1e308),
        (SMALL, "/config/note", "\ud800"),
        (MACHINE, "/price/usd_per_hour", -1),
        (MACHINE, "/price/usd_per_hour", 0),
        (MACHINE, "/price/usd_per_hour", 1e-300),
        (MACHINE, "/price/usd_per_hour", 1e308),
    ],
)
def test_what_cannot_be_is_named(path: str, pointer: str, value: object) -> None:
    assert pointers(path, setting(pointer, value)) != []
    assert set(pointers(path, setting(pointer, value))) == {pointer}


@pytest.mark.parametrize("alias", ["\ud800", "a\0", "\u200b", "x" * 201, ""])
def test_an_alias_is_a_name_too(alias: str) -> None:
    assert pointers(CARD, setting("/aliases", ["fine", alias])) == ["/aliases/1"]


@pytest.mark.parametrize("name", ["trusted", "revision", "received_at", "created_by", "tenant_id", "__proto__"])
def test_a_fact_that_the_schema_does_not_know_is_refused(name: str) -> None:
    assert pointers(CARD, setting(name, True)) == [f"/{name}"]


def test_a_fact_that_is_misspelt_is_named_with_what_was_perhaps_meant() -> None:
    changed = {**facts(CARD), "power_wats": 1, "a/" * 99: 1}

    faults = entry_faults(Entry(CatalogKind.GPU, "a100-sxm-80gb", changed, 0), SCHEMAS)
    found = {fault.pointer: fault for fault in faults}

    assert found["/power_wats"].detail == "There is no 'power_wats' here (did you mean 'power_watts'?)."
    assert found["/power_wats"].nearest[0] == "power_watts"
    assert f"/{'a~1' * 32}" in found


@pytest.mark.parametrize("text", ["\U0001f600" * 200, "<script>alert(1)</script>", "{{7*7}}", "e\u0301", "' OR 1=1--"])
def test_a_name_may_be_any_text_that_can_be_seen(text: str) -> None:
    assert pointers(CARD, setting("/name", text)) == []


@pytest.mark.parametrize("text", ["<script>", "line\nbreak\ttab", "\u202e", "\u200b", "\x1b[31m"])
def test_a_note_may_hold_what_a_name_may_not(text: str) -> None:
    assert pointers(CARD, setting("/provenance/notes", text)) == []


def test_another_id_than_the_one_it_goes_by_is_refused() -> None:
    assert pointers(CARD, setting("/id", "h100")) == ["/id"]


def test_a_config_that_contradicts_itself_is_pointed_to() -> None:
    assert pointers(SMALL, setting("/config/num_key_value_heads", 3)) == ["/config/num_key_value_heads"]


def test_an_architecture_that_no_reader_knows_may_be_stored() -> None:
    assert pointers(SMALL, setting("/config/model_type", "of-tomorrow")) == []


def test_a_list_longer_than_any_is_refused_before_its_entries_are_compared() -> None:
    assert pointers(CARD, setting("/aliases", [{"a": [n]} for n in range(100_000)])) == ["/aliases"]
    assert pointers(SMALL, setting("/config/layer_types", [["x"] * 4097])) == ["/config/layer_types/0"]


def test_no_more_than_fifty_faults_are_listed() -> None:
    assert len(pointers(CARD, setting("/aliases", list(range(1000))))) == MOST_FAULTS


@pytest.mark.parametrize(
    "value, expected",
    [
        (8e10, 80_000_000_000),
        (1.5, 1.5),
        (True, True),
        ([1.0, "1.0"], [1, "1.0"]),
        ({"a": -0.0}, {"a": 0}),
        (1e300, 1e300),
    ],
)
def test_a_number_without_a_fraction_is_an_integer(value: object, expected: object) -> None:
    assert json.dumps(whole_numbers(value)) == json.dumps(expected)
