"""What holds for every file of catalog/engines/flags."""

from collections.abc import Iterator
from typing import Any

import pytest

from service.domain.commands.reading import READERS
from service.domain.echo import NAMES
from service.storage.catalog_yaml import read_yaml
from tests.catalog.catalog_files import CATALOG, ids

FILES = sorted(CATALOG.glob("engines/flags/*.yaml"))
FLAGS: dict[str, dict[str, Any]] = {path.stem: read_yaml(path) for path in FILES}
SETTLED = {
    *("_adapters", "_loras", "_lora_rank", "_host_loras", "_lora_files", "_lora_sharded", "_lora_words"),
    *("_lora_targets", "_lora_lengths", "_lora_bias", "_lora_towers", "_lora_graphs"),
    *("_media", "_processor", "_encoder_mode", "_draft", "_level", "_compile_mode"),
    *("_connector", "_connector_settings", "_host_cache", "_host_cache_backend", "_events"),
    *("_rope_scaling", "_positions", "_state_type", "_dtype", "_quantization", "_repository", "_file"),
    *("_nodes", "_local_data", "_executor", "_devices", "_device", "_main", "_split"),
    *("_dp_attention", "_experts", "_batch", "_keys", "_values", "_chunked", "_chunk"),
}
"""Names that `service.domain.commands` settles with others."""


def rows(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every row of a file, keys of objects included."""
    for topic in ("sets", "refused", "variables", "ollama"):
        for row in facts.get(topic, ()):
            yield row
            yield from row.get("keys", {}).values()


def spellings(facts: dict[str, Any]) -> list[str]:
    told = [spelling for topic in ("sets", "refused") for row in facts[topic] for spelling in row["flags"]]
    return told + [spelling for listed in facts["ignored"].values() for spelling in listed]


def test_every_engine_that_serves_has_one() -> None:
    engines = {path.stem for path in CATALOG.glob("engines/*.yaml")}

    assert engines == {*FLAGS, "none"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_first_line_names_the_schema_for_editors(path: Any) -> None:  # noqa: ANN401
    assert path.read_text("utf-8").splitlines()[0] == "# yaml-language-server: $schema=../../schema/engine_flags.json"


@pytest.mark.parametrize("engine, least", [("llama.cpp", 400), ("sglang", 590), ("tensorrt-llm", 50), ("vllm", 400)])
def test_the_flags_are_whole_and_each_is_told_once(engine: str, least: int) -> None:
    told = spellings(FLAGS[engine])

    assert len(told) >= least
    assert len(told) == len(set(told))


@pytest.mark.parametrize("engine", sorted(FLAGS))
def test_every_flag_sets_a_name_or_says_why_it_does_not(engine: str) -> None:
    facts = FLAGS[engine]
    names = {row["name"] for row in rows(facts) if "name" in row}

    assert names - {*NAMES, *SETTLED} == set()
    assert [row for row in facts["sets"] if not {"name", "keys"} & row.keys()] == []
    assert [row for row in facts["refused"] if "why" not in row] == []
    assert {row["reads"] for row in rows(facts) if "reads" in row} <= set(READERS)


@pytest.mark.parametrize("engine", sorted(FLAGS))
def test_what_came_and_went_is_a_flag_and_the_releases_are_in_their_order(engine: str) -> None:
    history = FLAGS[engine].get("history", {"read": []})
    moved = {spelling for when in ("came", "went") for listed in history.get(when, {}).values() for spelling in listed}
    first = [row["flags"][0] for topic in ("sets", "refused") for row in FLAGS[engine][topic]]

    assert moved - {*first, *(s for listed in FLAGS[engine]["ignored"].values() for s in listed)} == set()
    for when in ("came", "went"):
        releases = list(history.get(when, {}))
        assert releases == [release for release in history["read"][1:] if release in releases]


@pytest.mark.parametrize("engine", sorted(FLAGS))
def test_methods_of_quantization_name_formats_of_the_catalog(engine: str) -> None:
    methods = FLAGS[engine].get("quantization", {}).values()
    formats = {name for method in methods for name in (*method.get("formats", ()), method.get("loaded_as", "fp8"))}

    assert formats - set(ids("dtype")) == set()
