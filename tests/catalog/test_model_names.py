"""Every name of `tests/data/names.yaml` leads where it says, over the whole catalog, and none leads elsewhere."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.domain.catalog import CatalogKind
from service.domain.errors import UnknownModel
from service.storage.canonical import compact_json
from service.storage.catalog import CatalogDelta, StoredEntry
from service.storage.snapshot import Snapshot
from tests.catalog.catalog_files import entries

NAMES: list[dict[str, Any]] = yaml.load(
    (Path(__file__).parents[1] / "data" / "names.yaml").read_text(), yaml.CSafeLoader
)
MODEL = CatalogKind.MODEL


@cache
def catalog() -> Snapshot:
    stored = (StoredEntry(MODEL, name, compact_json(facts).encode(), 1) for name, facts in entries("model").items())
    return Snapshot.empty().advanced(CatalogDelta(1, tuple(stored), ()))


def answer(name: str) -> tuple[str | None, str | None, str | None]:
    try:
        named = catalog().named_model(name)
    except UnknownModel:
        return (None, None, None)
    return (named.model.id, named.weight_dtype, named.kv_dtype)


def right(row: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    return (row.get("resolves_to"), row.get("weight_dtype"), row.get("kv_dtype"))


def refusal(name: str) -> UnknownModel:
    with pytest.raises(UnknownModel) as caught:
        catalog().named_model(name)
    return caught.value


def test_there_are_names_enough_of_every_kind() -> None:
    assert len(NAMES) >= 900
    assert sum("weight_dtype" in row for row in NAMES) > 100
    assert sum("refused" in row for row in NAMES) > 100


def test_every_name_is_read_as_the_list_says() -> None:
    wrong = {row["name"]: (answer(row["name"]), right(row)) for row in NAMES if answer(row["name"]) != right(row)}

    assert wrong == {}


def test_a_name_that_leads_to_another_entry_than_it_states_says_how_it_was_read() -> None:
    interpreted = [row["name"] for row in NAMES if row.get("weight_dtype")]

    assert [name for name in interpreted if not catalog().named_model(name).note] == []


@pytest.mark.parametrize("name", [row["name"] for row in NAMES if row.get("several")])
def test_a_name_with_several_readings_is_refused_with_the_candidates(name: str) -> None:
    faults = refusal(name).faults

    assert len(faults[0].nearest) > 1
    assert "more than one model" in faults[0].detail


def test_every_entry_answers_to_its_own_names_without_any_interpretation() -> None:
    own = {n: e for e, facts in entries("model").items() for n in (e, facts["hub_id"], *facts["aliases"])}
    waiting = {name for name, facts in entries("model").items() if facts.get("waits_for")}
    read = {name: catalog().named_model(name) for name, entry in own.items() if entry not in waiting}

    assert [name for name, named in read.items() if (named.model.id, named.note) != (own[name], None)] == []


def test_a_format_that_a_name_leaves_open_is_refused_with_the_base() -> None:
    fault = refusal("Qwen/Qwen2.5-7B-Instruct-Int8").faults[0]

    assert fault.nearest == ("qwen2.5-7b-instruct",)
    assert "weight_dtype or weight_bytes" in fault.detail


def test_the_note_says_the_base_and_the_format_that_were_taken_from_the_name() -> None:
    note = catalog().named_model("amd/Llama-3.3-70B-Instruct-FP8-KV").note

    assert note == "the name amd/Llama-3.3-70B-Instruct-FP8-KV is read as llama-3.3-70b-instruct with weights in fp8"


@pytest.mark.parametrize(
    "name, remark",
    [
        ("gemma-3-27b-it-GGUF", "several types"),
        ("Qwen3-14B-unsloth-bnb-4bit", "keeps in 16 bits"),
        ("Mistral-7B-v0.3", "tuning word or revision"),
        ("Qwen-72B-Chat-Int4", "taken as GPTQ"),
    ],
)
def test_the_note_says_what_the_name_leaves_open(name: str, remark: str) -> None:
    assert remark in str(catalog().named_model(name).note)
