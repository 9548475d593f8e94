"""Derivatives' names over a small catalog: what the steps do where the entries differ."""

import pytest

from service.domain.errors import UnknownModel
from service.storage.snapshot import Snapshot
from tests.storage.entries import LLAMA_CONFIG, model_change
from tests.storage.test_snapshot import delta, snapshot

FP8 = {"dtype": "fp8"}


def refused(of: Snapshot, name: str) -> UnknownModel:
    with pytest.raises(UnknownModel) as caught:
        of.named_model(name, "/here")
    return caught.value


def test_a_derivative_with_an_entry_of_its_own_is_that_entry() -> None:
    found = snapshot(model_change("tiny"), model_change("tiny-awq", checkpoint={"dtype": "awq"}))

    named = found.named_model("someone/Tiny-AWQ")

    assert (named.model.id, named.weight_dtype) == ("tiny-awq", None)


def test_a_derivative_leads_to_its_base_and_its_format() -> None:
    named = snapshot(model_change("tiny")).named_model("Tiny-AWQ")

    assert (named.model.id, named.weight_dtype, named.kv_dtype) == ("tiny", "awq", None)


def test_a_scheme_of_the_family_named_stays_the_checkpoints_own() -> None:
    found = snapshot(model_change("tiny", checkpoint={"dtype": "fp8_block128"}))

    assert found.named_model("tiny-fp8").weight_dtype == "fp8_block128"


def test_a_derivative_of_a_derivative_leads_nowhere() -> None:
    refused(snapshot(model_change("tiny-fp8", checkpoint=FP8)), "tiny-fp8-awq")


def test_a_base_is_read_as_its_tuned_sibling() -> None:
    named = snapshot(model_change("tiny-instruct")).named_model("tiny-base")

    assert named.model.id == "tiny-instruct"
    assert "tuning word" in str(named.note)


def test_a_base_is_not_read_as_a_sibling_stored_in_another_type() -> None:
    refused(snapshot(model_change("tiny-instruct", checkpoint=FP8)), "tiny-base")


def test_a_base_of_a_stated_format_is_read_as_a_sibling_stored_in_another() -> None:
    named = snapshot(model_change("tiny-instruct", checkpoint=FP8)).named_model("tiny-base-awq")

    assert (named.model.id, named.weight_dtype) == ("tiny-instruct", "awq")


def test_a_tuned_name_needs_an_entry_that_states_both_tunings_of_a_shape() -> None:
    stated = snapshot(model_change("tiny", hub_id="them/Tiny", aliases=["them/Tiny-Base"]))

    assert stated.named_model("tiny-instruct").model.id == "tiny"
    assert stated.named_model("them/Tiny-Instruct").model.id == "tiny"
    refused(stated, "others/Tiny-Instruct")
    refused(snapshot(model_change("tiny", hub_id="them/Tiny")), "tiny-instruct")


def test_two_entries_of_one_spelling_are_two_readings() -> None:
    found = snapshot(model_change("tiny-1.5-x"), model_change("tiny_1.5_x"))

    assert refused(found, "tiny 1.5 x").faults[0].nearest == ("tiny-1.5-x", "tiny_1.5_x")


def test_a_revision_left_out_is_refused_where_a_sibling_has_another_shape() -> None:
    other = {**LLAMA_CONFIG, "num_hidden_layers": 3}
    alike = snapshot(model_change("tiny-v0.1"), model_change("tiny-instruct-v0.1"))
    unlike = snapshot(model_change("tiny-v0.1"), model_change("tiny-instruct-v0.1", config=other))

    assert alike.named_model("tiny").model.id == "tiny-v0.1"
    assert refused(unlike, "tiny").faults[0].nearest == ("tiny-instruct-v0.1", "tiny-v0.1")


def test_the_pointer_of_the_question_is_in_the_refusal() -> None:
    assert refused(snapshot(model_change("tiny")), "tiny-int8").faults[0].pointer == "/here"
    assert refused(snapshot(model_change("tiny")), "other").faults[0].pointer == "/here"


def test_a_name_longer_than_any_is_not_read() -> None:
    refused(snapshot(model_change("tiny")), "x" * 300 + "-awq")


def test_an_entry_that_came_later_takes_derivatives_too() -> None:
    first = snapshot(model_change("tiny"))
    refused(first, "later-awq")

    assert first.advanced(delta(2, model_change("later"))).named_model("later-awq").model.id == "later"


def test_an_entry_that_is_gone_takes_none() -> None:
    first = snapshot(model_change("tiny"))
    assert first.named_model("tiny-awq").model.id == "tiny"
    gone = delta(2, model_change("other"))

    refused(first.advanced(type(gone)(2, gone.entries, ((model_change("tiny").kind, "tiny"),))), "tiny-awq")


def test_a_name_is_read_once_and_remembered() -> None:
    found = snapshot(model_change("tiny"))

    assert found.named_model("tiny-awq") is found.named_model("tiny-awq")
