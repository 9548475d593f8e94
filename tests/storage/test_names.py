import os
import subprocess
import sys

import pytest

from service.storage.names import NameIndex, NearestNames, fold


def index(**entries: dict[str, object]) -> NameIndex:
    made = NameIndex()
    for entry_id, stated in entries.items():
        made.add(entry_id, stated)
    return made


def suggestions(wrong: str, *names: str) -> tuple[str, ...]:
    return NearestNames(names).search(fold(wrong), lambda name: name)


def test_an_alias_leads_to_its_entry_in_any_case() -> None:
    names = index(h100={"aliases": ["NVIDIA H100 80GB HBM3"]})

    assert names.find(fold("nvidia h100 80gb hbm3")) == ("h100",)


def test_a_hub_id_leads_to_its_entry_with_and_without_the_owner() -> None:
    names = index(small={"hub_id": "meta-llama/Llama-2-7b-hf"})

    assert names.find("meta-llama/llama-2-7b-hf") == ("small",)
    assert names.find("llama-2-7b-hf") == ("small",)


def test_composed_and_decomposed_letters_are_one_name() -> None:
    assert fold("Caf\u00e9") == fold("cafe\u0301")


def test_an_alias_goes_before_the_end_of_somebody_elses_hub_id() -> None:
    names = index(mine={"aliases": ["tiny"]}, theirs={"hub_id": "them/Tiny"})

    assert names.find("tiny") == ("mine",)


def test_the_end_of_two_hub_ids_means_neither_alone() -> None:
    names = index(b={"hub_id": "x/Tiny"}, a={"hub_id": "y/Tiny"})

    assert names.find("tiny") == ("a", "b")


def test_a_removed_entry_gives_its_names_back() -> None:
    names = index(a={"hub_id": "x/Tiny", "aliases": ["small"]}, b={"hub_id": "y/Tiny", "aliases": ["small"]})

    names.remove("b", {"hub_id": "y/Tiny", "aliases": ["small"]})

    assert (names.find("tiny"), names.find("small"), names.find("y/tiny")) == (("a",), ("a",), ())


def test_a_copy_changes_alone() -> None:
    names = index(a={"aliases": ["small"]})
    copied = names.copy()

    copied.remove("a", {"aliases": ["small"]})

    assert names.find("small") == ("a",)
    assert copied.find("small") == ()


def test_entries_are_found_by_a_part_of_any_name_they_state() -> None:
    names = index(h100={"aliases": ["NVIDIA H100 80GB HBM3"]}, a100={"aliases": ["NVIDIA A100"]}, t4={})

    assert names.containing("nvidia") == {"h100", "a100"}
    assert names.containing("80gb") == {"h100"}
    assert names.containing("%") == set()


@pytest.mark.parametrize(
    "wrong, meant",
    [
        ("lama-2-7b", "llama-2-7b"),
        ("llama-2-7", "llama-2-7b"),
        ("llama 2 7b", "llama-2-7b"),
        ("Llama2-7B", "llama-2-7b"),
        ("llma-2-70b", "llama-2-70b"),
        ("mixtral8x7b", "mixtral-8x7b"),
    ],
)
def test_the_nearest_name_is_the_one_meant(wrong: str, meant: str) -> None:
    names = "llama-2-7b", "llama-2-70b", "mixtral-8x7b", "mistral-7b", "qwen2-7b", "gemma-2-9b"

    assert suggestions(wrong, *names)[0] == meant


def test_a_word_may_run_into_its_number() -> None:
    assert suggestions("llama3", "llama-2-7b", "llama-3-8b", "llama-2-13b")[0] == "llama-3-8b"


def test_nothing_is_suggested_for_what_resembles_nothing() -> None:
    assert suggestions("zzzz", "llama-2-7b", "mistral-7b") == ()
    assert suggestions("", "llama-2-7b") == ()


def test_at_most_three_names_are_suggested() -> None:
    assert len(suggestions("llama-2", *(f"llama-2-{size}b" for size in range(20)))) == 3


def test_slices_of_a_card_do_not_crowd_out_the_card() -> None:
    """More names share the mistyped one's letters than are compared: the shortest are the most alike."""
    slices = [f"a100-sxm-80gb-mig-{parts}g-{parts}0gb" for parts in range(1, 30)]

    assert set(suggestions("a100", *slices, "a100-sxm-80gb", "a100-pcie-80gb")) >= {"a100-sxm-80gb", "a100-pcie-80gb"}


def test_names_that_are_gone_are_not_suggested() -> None:
    names = NearestNames(["llama-2-7b", "llama-2-70b"])

    assert names.search("llama-2-7", {"llama-2-70b": "llama-2-70b"}.get) == ("llama-2-70b",)


def test_two_names_of_one_entry_are_one_suggestion() -> None:
    names = NearestNames(["h100-sxm", "h100-sxm5"])

    assert names.search("h100sxm", lambda _: "h100") == ("h100",)


def test_a_rare_mistake_is_found_among_very_many_names() -> None:
    names = [f"model-{number:05}-instruct" for number in range(20_000)]

    assert suggestions("modell-12345-instruct", *names)[0] == "model-12345-instruct"


MANY_ALIKE = """
from service.storage.names import NearestNames
letters = "efghijklmnopqrstuvwxyz"
names = [f"ab{letter}" for letter in letters] + [f"{letter}bcd" for letter in letters]
print(NearestNames(names).search("abcd", lambda name: name))
"""


def test_suggestions_are_the_same_from_every_process() -> None:
    told = {
        subprocess.check_output([sys.executable, "-c", MANY_ALIKE], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2", "3", "4")
    }

    assert len(told) == 1
