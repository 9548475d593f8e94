from typing import Any

import pytest

from service.domain.plausible import implausible, oversized


def pointers(**facts: Any) -> list[str]:  # noqa: ANN401  # facts are documents
    return [fault.pointer for fault in implausible(facts)]


@pytest.mark.parametrize(
    "name, least, greatest",
    [
        ("bandwidth_bytes_per_second", 1, 10**18),
        ("network_bits_per_second", 1, 10**18),
        ("peak_flops_per_second", 1, 10**15),
        ("usd_per_hour", 1e-6, 1e6),
        ("layer_seconds", 1e-12, 1e6),
        ("context_tokens", 1, 2**31),
        ("memory_bytes", 1, 2**50),
    ],
)
def test_a_unit_has_a_least_and_a_greatest_number(name: str, least: float, greatest: float) -> None:
    assert pointers(**{name: [least, float(greatest), 0]}) == []
    assert pointers(**{name: least / 2}) == [f"/{name}"]
    assert pointers(**{name: greatest * 1e7}) == [f"/{name}"]
    assert pointers(**{name: -1}) == [f"/{name}"]


def test_numbers_take_the_unit_of_the_object_they_stand_in() -> None:
    assert pointers(peak_flops_per_second={"fp16": 0.5, "rows": {"deep": 0.5}}) == [
        "/peak_flops_per_second/fp16",
        "/peak_flops_per_second/rows/deep",
    ]
    assert pointers(memory={"range_bytes": [1, 2**51]}) == ["/memory/range_bytes/1"]


def test_a_name_of_its_own_goes_before_that_of_the_object() -> None:
    assert pointers(rates_bytes_per_second={"share_seconds": 1e-6, "size_bytes": 2**49}) == []


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 1e308, -1e22, 5e-324, 1e-31])
def test_a_number_of_any_name_keeps_within_what_can_be_computed_with(value: float) -> None:
    assert pointers(anything=value) == ["/anything"]


@pytest.mark.parametrize("value", [0, 0.0, 1e-30, 1e21, -5.5, 2**53 - 1, True])
def test_a_number_without_a_unit_may_be_anything_else(value: float) -> None:
    assert pointers(anything=value) == []


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**63, -(2**63) - 1])
def test_an_integer_is_one_that_every_reader_keeps_exact(value: int) -> None:
    assert pointers(anything={"deep": [value]}) == ["/anything/deep/0"]


def test_the_names_of_a_published_config_mean_what_its_makers_say() -> None:
    assert pointers(config={"window_tokens": 2**40, "name": "\u200b", "theta_seconds": 1e9, "a_bytes": 0.5}) == []
    assert pointers(config={"deep": {"x": 1e308}}) == ["/config/deep/x"]


@pytest.mark.parametrize("text", ["\0", "a\ud800b", "\udfff"])
def test_no_text_holds_what_no_text_can(text: str) -> None:
    assert pointers(notes=text) == ["/notes"]
    assert pointers(config={text: 1}) == ["/config"]


@pytest.mark.parametrize("text", ["\u202e", "\u200b", "a\nb", "\ue000", "\u2028"])
def test_a_name_is_made_of_what_can_be_seen(text: str) -> None:
    assert pointers(name=text) == ["/name"]
    assert pointers(aliases=["fine", text]) == ["/aliases/1"]
    assert pointers(notes=text) == []


@pytest.mark.parametrize("text", [" A100", "A100 ", "A100\u00a0", "\u3000A100"])
def test_a_name_begins_and_ends_with_what_can_be_asked_for(text: str) -> None:
    assert pointers(name=text, aliases=["A100", text], notes=text) == ["/name", "/aliases/1"]


def test_names_are_shorter_than_notes() -> None:
    assert pointers(name="x" * 200, notes="x" * 8000) == []
    assert pointers(name="x" * 201, notes="x" * 8001) == ["/name", "/notes"]


def test_a_pointer_is_escaped_and_kept_short() -> None:
    assert pointers(**{"a/b~c": {"d" * 99: 1e308}}) == [f"/a~1b~0c/{'d' * 64}"]


def test_lists_are_no_longer_than_a_model_has_layers() -> None:
    assert list(oversized({"a": [0] * 4096, "b": {"c": [[1], {"d": []}]}})) == []
    assert [fault.pointer for fault in oversized({"a": [0] * 4097, "b": {"c": [1, [0] * 4097]}})] == ["/a", "/b/c/1"]


def test_a_process_sees_no_more_of_a_card_than_is_on_its_box() -> None:
    box = {"advertised_bytes": 24 * 10**9}

    assert pointers(memory={**box, "visible_bytes": int(24 * 2**30 * 1.01)}) == []
    assert pointers(memory={**box, "visible_bytes": int(24 * 2**30 * 1.01) + 1}) == ["/memory/visible_bytes"]
    assert pointers(memory={**box, "visible_bytes": None, "visible_range_bytes": None}) == []


def test_the_range_of_what_was_seen_rises() -> None:
    seen = {"advertised_bytes": 24 * 10**9, "visible_bytes": 23 * 10**9}

    assert pointers(memory={**seen, "visible_range_bytes": [22 * 10**9, 23 * 10**9]}) == []
    assert pointers(memory={**seen, "visible_range_bytes": [23 * 10**9, 22 * 10**9]}) == ["/memory/visible_range_bytes"]
    assert pointers(memory={**seen, "visible_range_bytes": [22 * 10**9, 22 * 10**9]}) == []


def test_a_card_of_a_size_that_no_float_holds_is_refused_for_that_alone() -> None:
    assert pointers(memory={"advertised_bytes": 10**400, "visible_bytes": 1}) == ["/memory/advertised_bytes"]
    assert pointers(memory={"advertised_bytes": 10**9, "visible_bytes": 10**400}) == ["/memory/visible_bytes"] * 2
