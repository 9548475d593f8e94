"""The policy of vLLM: what the catalog must say of it, and which rule a release gets."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from service.domain.catalog import CatalogKind, Entry
from service.domain.configs import known_model_types
from service.domain.engines.vllm import VllmEngine, from_facts
from service.domain.errors import CatalogFactError, ValidationError
from tests.domain.conftest import entry

Change = Callable[[dict[str, Any]], object]


def changed(change: Change) -> Entry:
    facts = copy.deepcopy(dict(entry(CatalogKind.ENGINE, "vllm").facts))
    change(facts)
    return Entry(CatalogKind.ENGINE, "vllm", facts, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts.pop("utilization"),
        lambda facts: facts["batch"].pop("v1"),
        lambda facts: facts["sampler"]["methods"]["sort"].pop("spread"),
        lambda facts: facts["runtime"]["v1"][0].update(bytes=[1, 2]),
        lambda facts: facts["graphs"][1].update(since="soon"),
        lambda facts: facts["releases"]["read"].append("0.7.7"),
        lambda facts: facts["paging"]["v1"][0].pop("printed_size"),
    ],
    ids=["topic", "core", "figure", "span", "date", "release", "choice"],
)
def test_a_policy_with_something_missing_is_a_fault_of_the_catalog(change: Change) -> None:
    with pytest.raises(CatalogFactError, match="The engine vllm cannot be read"):
        from_facts(changed(change))


@pytest.mark.parametrize(
    "version, fraction", [("0.5.4", 0.9), ("0.19.1", 0.9), ("0.20.0rc1", 0.9), ("0.20.0", 0.92), ("0.33.0", 0.92)]
)
def test_a_rule_holds_from_its_release_on(engine: VllmEngine, version: str, fraction: float) -> None:
    assert engine.release(version).cores["v1"].utilization == fraction


def test_the_oldest_rule_speaks_for_releases_before_it() -> None:
    early = from_facts(changed(lambda facts: facts["utilization"].pop(0)))
    assert early.release("0.6.4").cores["v0"].utilization == 0.92


def test_the_newest_release_is_the_default(engine: VllmEngine) -> None:
    assert engine.release(None).name == engine.timeline.newest == "0.33.0"


def test_a_release_past_the_newest_gets_its_rules_and_a_note(engine: VllmEngine) -> None:
    newest, later = engine.release(None), engine.release("0.40.0")
    assert later.cores["v1"].paging == newest.cores["v1"].paging
    assert later.note is not None
    assert newest.note is None


def test_a_release_between_two_read_ones_gets_the_rules_of_the_older(engine: VllmEngine) -> None:
    between, older, newer = (engine.release(name).cores["v1"] for name in ("0.27.1", "0.26.0", "0.28.0"))
    assert between.batch == older.batch
    assert between.batch != newer.batch


def test_a_release_that_never_was_is_refused(engine: VllmEngine) -> None:
    with pytest.raises(ValidationError, match=r"never released as 0\.9\.9"):
        engine.release("0.9.9")


def test_a_release_is_resolved_once(engine: VllmEngine) -> None:
    assert engine.release("0.19.1") is engine.release("0.19.1")


def test_releases_kept_are_bounded(engine: VllmEngine) -> None:
    for build in range(300):
        engine.release(f"0.33.1.dev{build}")
    assert len(engine.kept) <= 128


@pytest.mark.parametrize("version, core", [("0.7.3", "v0"), ("0.8.0", "v1"), ("0.33.0", "v1")])
def test_each_release_has_its_own_core(engine: VllmEngine, version: str, core: str) -> None:
    assert engine.release(version).engine.core == core


def test_every_rule_says_what_it_rests_on_and_when_it_was_checked() -> None:
    facts = entry(CatalogKind.ENGINE, "vllm").facts
    rules = list(dated(facts))
    assert len(rules) > 60
    assert all(rule.get("evidence") and rule.get("checked") for rule in rules)


def dated(facts: object) -> "list[dict[str, Any]]":
    """Every mapping with a release in it, however deep."""
    if isinstance(facts, list):
        return [rule for item in facts for rule in dated(item)]
    if not isinstance(facts, dict):
        return []
    below = [rule for value in facts.values() for rule in dated(value)]
    return [facts, *below] if "since" in facts else below


@pytest.mark.parametrize("version, size", [("0.20.0", "shared"), ("0.20.2", "concurrency"), ("0.33.0", "concurrency")])
def test_the_printed_tokens_follow_concurrency_from_one_release_on(engine: VllmEngine, version: str, size: str) -> None:
    assert engine.release(version).cores["v1"].paging.printed_size == size


def test_families_that_are_refused_by_name_are_families(engine: VllmEngine) -> None:
    undescribed = engine.release(None).cores["v1"].constants.undescribed

    assert undescribed
    assert undescribed.keys() <= set(known_model_types())
