"""Parameters as the readers count them, as the entries state them and as the hub publishes them.

`pytest -s tests/catalog/test_published_counts.py` prints the table of all models with each difference.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.catalog import CatalogKind, Entry
from service.domain.model import from_facts
from tests.catalog.catalog_files import Facts, entries

TOWERS = {ModuleKind.VISION, ModuleKind.AUDIO}
OTHER_PREDICTION = {
    "glm-4.6": "its files hold one without the table and the head that its siblings store with theirs",
    "longcat-flash-chat": "no reader describes it",
    "mimo-v2-flash": "no reader describes it",
}
VECTORS_MISSING = "wizardcoder-15b-v1.0"
DRAFTING_BLOCKS = "deepseek-v4-flash-0731"
PARTIAL = {"mimo-v2.5", "step3"}
PART = re.compile(r"^([\d,]+) \D")


@cache
def read() -> Mapping[str, Architecture]:
    """Every model that the readers read; what waits for a part of its config is left out."""
    whole = {name: facts for name, facts in entries("model").items() if not facts.get("waits_for")}
    return {name: from_facts(Entry(CatalogKind.MODEL, name, facts, 1)).architecture for name, facts in whole.items()}


def stated(field: str) -> dict[str, int | None]:
    return {name: entries("model")[name]["parameters"].get(field) for name in read()}


def gap(counts: Facts) -> int:
    """What the hub counts beside what an engine loads; 0 where it publishes nothing to compare with."""
    return int((counts["published"] or counts["count"]) - counts["count"])


def parts(counts: Facts) -> list[str]:
    return str(counts.get("difference", "")).partition(" at the hub: ")[2].removesuffix(".").split("; ")


def fault(counts: Facts) -> str | None:
    """What is wrong with how an entry explains its difference; None where it is explained to the unit."""
    difference = gap(counts)
    if not difference:
        return "says why there is a difference, and there is none" if "difference" in counts else None
    if not counts.get("difference", "").startswith(f"{difference:+,} at the hub: "):
        return f"does not explain {difference:+,}"
    if len(parts(counts)) == 1 or counts["status"] == "computed_differs":
        return None
    numbers = [PART.match(part) for part in parts(counts)]
    total = sum(int(number[1].replace(",", "")) for number in numbers if number)
    return None if all(numbers) and total == difference else f"explains {total:+,} of {difference:+,}"


def explained(**changes: Any) -> Facts:  # noqa: ANN401  # values of facts
    counts: Facts = entries("model")["deepseek-v3"]["parameters"]
    return counts | changes


def test_the_reader_counts_what_the_entry_states() -> None:
    assert {name: of.parameters for name, of in read().items()} == stated("count")


def test_the_reader_counts_the_same_active_parameters() -> None:
    assert {name: of.active_parameters for name, of in read().items()} == stated("active")


def test_the_reader_counts_the_same_encoders() -> None:
    def encoders(modules: tuple[Module, ...]) -> int | None:
        return sum(module.parameters for module in modules if module.kind in TOWERS) or None

    assert {name: encoders(of.modules) for name, of in read().items()} == stated("vision_and_audio")


def test_every_difference_to_the_hub_is_explained_in_the_entry() -> None:
    """Prints the whole table: the model, the readers' count, the published one, and why they differ."""
    for name, facts in entries("model").items():
        counts = facts["parameters"]
        counted = read()[name].parameters if name in read() else counts["count"]
        print(name, counted, counts["published"] or "-", counts["status"], counts.get("difference", ""), sep=" | ")  # noqa: T201  # the table is half of the point

    faults = {name: fault(facts["parameters"]) for name, facts in entries("model").items()}

    assert {name: why for name, why in faults.items() if why} == {}


@pytest.mark.parametrize(
    "counts, wrong",
    [
        (explained(), None),
        (explained(published=None, difference=None), "says why there is a difference, and there is none"),
        (explained(published=explained()["count"] + 1), "does not explain +1"),
        (explained(difference="+13,504,981,648 at the hub: 1 scale; 2 biases."), "explains +3 of +13,504,981,648"),
        (explained(difference="+13,504,981,648 at the hub: 1 scale; biases."), "explains +1 of +13,504,981,648"),
        (explained(difference="more at the hub"), "does not explain +13,504,981,648"),
    ],
)
def test_an_explanation_is_held_to_the_unit(counts: Facts, wrong: str | None) -> None:
    assert fault(counts) == wrong


def test_the_hubs_prediction_layers_are_those_that_the_reader_counts() -> None:
    wrong = {}
    for name, of in read().items():
        counts = entries("model")[name]["parameters"]
        own = sum(module.parameters for module in of.modules if module.kind is ModuleKind.PREDICTION)
        told = [part for part in parts(counts) if "multi-token-prediction" in part]
        number = PART.match(told[0]) if told else None
        published = int(number[1].replace(",", "")) if number else gap(counts)
        if told and counts["status"] == "exact_without_prediction_layers" and own != published:
            wrong[name] = own - published

    assert set(wrong) == set(OTHER_PREDICTION)


def test_the_norms_and_biases_that_the_hub_does_not_count_are_those_of_the_first_layers() -> None:
    """Of a GPTBigCode layer: two norms with a bias, and a bias to each of four matrices."""
    config, counts = (entries("model")[VECTORS_MISSING][part] for part in ("config", "parameters"))
    width, head = config["n_embd"], config["n_embd"] // config["n_head"]
    first_half = 2 * width + (width + 2 * head) + width
    second_half = 2 * width + config["n_inner"] + width

    assert gap(counts) == -(31 * (first_half + second_half) + first_half)
    assert all(f"{number:,}" in counts["difference"] for number in (first_half + second_half, first_half))


def test_the_rest_of_deepseeks_dated_flash_is_as_much_as_three_blocks_that_draft() -> None:
    """Beside what the undated one holds too; a block without the projections of a prediction layer, with a head."""
    undated, dated = (entries("model")[name]["parameters"] for name in ("deepseek-v4-flash", DRAFTING_BLOCKS))
    block = sum(m.parameters for m in read()["deepseek-v4-flash"].modules if m.kind is ModuleKind.PREDICTION)

    assert dated["count"] == undated["count"]
    assert gap(dated) - (gap(undated) - block) == pytest.approx(3 * block, rel=0.001)


def test_only_these_models_differ_otherwise_or_in_a_part() -> None:
    told = {name: facts["parameters"] for name, facts in entries("model").items()}

    assert {n for n, of in told.items() if of["status"] == "computed_differs"} == {VECTORS_MISSING, DRAFTING_BLOCKS}
    assert {n for n, of in told.items() if of["status"] == "text_part_computed"} == PARTIAL
