"""Every id, hub id and alias of the fact collections leads to its entry by the service's own index of names."""

import re
from collections.abc import Callable, Iterator, Mapping

import pytest

from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import UnknownArchitecture
from service.domain.model import from_facts
from service.domain.shared_names import card_named
from service.storage.catalog_yaml import read_yaml
from tests.catalog.catalog_files import GIB, HERE, cards, entries, snapshot

KNOWN: Mapping[str, Mapping[str, list[str]]] = read_yaml(HERE / "known_names.yaml")


def known(kind: str) -> Iterator[tuple[str, str]]:
    """Each name with the entry it leads to."""
    return ((name, entry) for entry, names in KNOWN[kind].items() for name in names)


def model_of(name: str) -> str | None:
    """The id of the model that answers to a name; None would be a question by config."""
    return snapshot().named_model(name).model.id


@pytest.mark.parametrize("kind, entries_least, names_least", [("gpu", 161, 420), ("model", 435, 758)])
def test_the_list_of_names_is_whole(kind: str, entries_least: int, names_least: int) -> None:
    assert len(KNOWN[kind]) >= entries_least
    assert len(list(known(kind))) >= names_least


def test_every_model_is_on_the_list() -> None:
    assert entries("model").keys() - KNOWN["model"].keys() == set()


@pytest.mark.parametrize("kind", ["gpu", "model"])
def test_a_known_name_leads_to_its_entry_and_to_no_other(kind: str) -> None:
    found = {name: snapshot().ids_of(CatalogKind(kind), name) for name, _ in known(kind)}

    assert {name: found[name] for name, entry in known(kind) if found[name] != (entry,)} == {}


@pytest.mark.parametrize("typed", [str.upper, str.lower])
def test_a_known_name_is_found_in_upper_and_lower_case(typed: Callable[[str], str]) -> None:
    found = {
        (kind, name): snapshot().ids_of(CatalogKind(kind), typed(name)) for kind in KNOWN for name, _ in known(kind)
    }

    assert [name for kind in KNOWN for name, entry in known(kind) if found[kind, name] != (entry,)] == []


def test_a_known_device_is_answered_for_under_each_of_its_names() -> None:
    assert [name for name, entry in known("gpu") if snapshot().gpu(name).id != entry] == []


@pytest.mark.parametrize(
    "name, cards",
    [
        ("NVIDIA GeForce RTX 3080", ["rtx-3080-10gb", "rtx-3080-12gb"]),
        ("rtx 4060 ti", ["rtx-4060-ti-16gb", "rtx-4060-ti-8gb"]),
        ("NVIDIA-GeForce-RTX-5060-Ti", ["rtx-5060-ti-16gb", "rtx-5060-ti-8gb"]),
        ("Apple M3 Ultra", ["apple-m3-ultra-256gb", "apple-m3-ultra-512gb", "apple-m3-ultra-96gb"]),
        ("RTX 308", []),
        ("RTX 3080 1", []),
        ("", []),
    ],
)
def test_cards_that_share_a_name_are_found_by_it(name: str, cards: list[str]) -> None:
    assert [card.id for card in snapshot().sized_gpus(name)] == cards


def test_the_memory_tells_apart_all_cards_that_share_a_name() -> None:
    """As a process sees it, as the box says, and the box's number as GiB: `hw.memsize` of a Mac is that."""
    found = {}
    names = {re.sub(r" \d+ ?GB$", "", gpu["name"]) for gpu in cards().values()}
    for name in sorted(name for name in names if not snapshot().ids_of(CatalogKind("gpu"), name)):
        for card in snapshot().sized_gpus(name):
            boxed = card.advertised_bytes
            for size in (card.visible_bytes, card.driver_total_bytes, boxed, boxed // 10**9 * GIB):
                if size:
                    found[name, size] = card_named(name, snapshot(), memory_bytes=size)[0].id, card.id

    assert len(found) > 100
    assert {asked: ids for asked, ids in found.items() if ids[0] != ids[1]} == {}
    assert found["Apple M4 Max", 137_438_953_472][0] == "apple-m4-max-128gb"
    assert found["Jetson AGX Orin", 32 * GIB][0] == "jetson-agx-orin-32gb"


def test_a_known_model_is_answered_for_under_each_of_its_names() -> None:
    assert [name for name, entry in known("model") if model_of(name) != entry] == []


def test_a_model_that_waits_is_refused_with_what_it_waits_for() -> None:
    name = "llama-3_1-nemotron-ultra-253b-v1"
    facts = {**entries("model")[name], "waits_for": "the list of its blocks"}

    with pytest.raises(UnknownArchitecture, match="waits for the list of its blocks"):
        from_facts(Entry(CatalogKind.MODEL, name, facts, 1))


def test_no_known_model_waits() -> None:
    assert [name for name, facts in entries("model").items() if facts.get("waits_for")] == []
