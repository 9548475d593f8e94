"""What holds for every file of the catalog, whatever it describes."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from service.storage.catalog_files import read_catalog_files
from tests.catalog.catalog_files import CATALOG, KINDS, entries, ids, names, paths


def schema(kind: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CATALOG / "schema" / f"{kind}.json").read_text("utf-8"))
    return document


def objects(node: object) -> Iterator[dict[str, Any]]:
    """Every place in a schema that lists properties."""
    if isinstance(node, dict):
        if "properties" in node and "if" not in node and node.get("type") == "object":
            yield node
        for key, value in node.items():
            yield from objects(value) if key != "if" else ()
    elif isinstance(node, list):
        for value in node:
            yield from objects(value)


def test_all_files_pass_the_check_that_the_command_makes() -> None:
    found = Counter(str(entry.kind) for entry in read_catalog_files(CATALOG))

    assert {kind: found[kind] for kind in KINDS} == {kind: len(ids(kind)) for kind in KINDS}


@pytest.mark.parametrize("kind, least", [("gpu", 161 + 138), ("model", 435), ("instance", 102), ("dtype", 50)])
def test_the_catalog_is_whole(kind: str, least: int) -> None:
    assert len(ids(kind)) >= least


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_line_names_the_schema_for_editors(kind: str) -> None:
    wanted = f"# yaml-language-server: $schema=../schema/{kind}.json"

    assert [path.name for path in paths(kind) if path.read_text("utf-8").splitlines()[0] != wanted] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_named_for_its_entry(kind: str) -> None:
    assert [name for name, facts in entries(kind).items() if facts["id"] != name] == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_leads_to_two_entries_whatever_the_case(kind: str) -> None:
    owners = Counter(name for facts in entries(kind).values() for name in names(facts))

    assert [name for name, count in owners.items() if count > 1] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_fact_says_where_it_is_from_and_how_sure_it_is(kind: str) -> None:
    provenances = {name: facts["provenance"] for name, facts in entries(kind).items()}

    assert [name for name, of in provenances.items() if not of["sources"] or not of["confidence"]] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_was_on_a_day_that_has_been(kind: str) -> None:
    today = datetime.now(UTC).date()
    days = {name: date.fromisoformat(facts["provenance"]["checked"]) for name, facts in entries(kind).items()}

    assert [name for name, day in days.items() if not date(2026, 1, 1) <= day <= max(today, date(2026, 11, 29))] == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_only_recalled_is_never_of_high_confidence_alone(kind: str) -> None:
    def alone(sources: list[str]) -> bool:
        return all(source.startswith("recalled") for source in sources)

    provenances = {name: facts["provenance"] for name, facts in entries(kind).items()}

    assert [n for n, of in provenances.items() if alone(of["sources"]) and of["confidence"] != "low"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_valid_and_closed(kind: str) -> None:
    Draft202012Validator.check_schema(schema(kind))
    open_to_more = [part for part in objects(schema(kind)) if part.get("additionalProperties") is not False]

    # Only a published config may hold what we do not know.
    assert [part["required"] for part in open_to_more] == ([["model_type"]] if kind == "model" else [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_describes_every_property_to_the_one_who_types(kind: str) -> None:
    undescribed = [
        name
        for part in objects(schema(kind))
        for name, of in part["properties"].items()
        if isinstance(of, dict) and "description" not in of
    ]

    assert undescribed == []


@pytest.mark.parametrize(
    "kind, name, change",
    [
        ("gpu", "t4", {"colour": "green"}),
        ("gpu", "t4", {"memory": {"advertised_gb": 16}}),
        ("gpu", "t4", {"l2_cache_bytes": "4 MiB"}),
        ("gpu", "t4", {"provenance": None}),
        ("model", "llama-2-7b", {"parameters": {"count": 6.7e9 + 0.5}}),
        ("model", "llama-2-7b", {"released": "July 2023"}),
        ("instance", "aws-p5-48xlarge", {"price": {"usd_per_hour": 0}}),
        ("dtype", "awq", {"weight": None}),
        ("dtype", "awq", {"roles": ["weight", "kv"]}),
    ],
)
def test_a_schema_refuses_what_is_mistyped(kind: str, name: str, change: dict[str, Any]) -> None:
    validator = Draft202012Validator(schema(kind))

    assert validator.is_valid(entries(kind)[name])
    assert not validator.is_valid(entries(kind)[name] | change)


def test_the_readme_explains_every_word_of_provenance() -> None:
    readme = (CATALOG / "README.md").read_text("utf-8")
    gpu, model = schema("gpu")["properties"], schema("model")["properties"]
    words = {
        *schema("gpu")["$defs"]["provenance"]["properties"]["confidence"]["enum"],
        *gpu["memory"]["properties"]["visible_source"]["enum"],
        *gpu["memory"]["properties"]["driver_total_source"]["enum"],
        *model["checkpoint"]["properties"]["dtype_source"]["enum"],
        *model["parameters"]["properties"]["status"]["enum"],
    }

    assert [word for word in words if word and not re.search(rf"`{word}`", readme)] == []
