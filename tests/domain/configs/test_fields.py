"""Typed access to a config: aliases, nulls, defaults and refusals by name."""

from typing import Any

import pytest

from service.domain.configs.fields import Fields, shown
from service.domain.errors import ConfigError


def pointer(error: pytest.ExceptionInfo[ConfigError]) -> str:
    return error.value.faults[0].pointer


def test_the_first_alias_that_is_not_null_counts() -> None:
    assert Fields({"n_embd": None, "d_model": 64}).integer("hidden_size", "n_embd", "d_model") == 64


def test_a_default_stands_in_for_silence_and_not_for_null() -> None:
    silent, null = (Fields(values).defaulting({"sliding_window": 4096}) for values in ({}, {"sliding_window": None}))

    assert (silent.optional("sliding_window"), null.optional("sliding_window")) == (4096, None)


def test_a_stated_alias_wins_over_a_default_of_another_name() -> None:
    assert Fields({"n_layer": 3}).defaulting({"num_hidden_layers": 32}).layers() == 3


def test_a_whole_float_is_a_whole_number() -> None:
    assert Fields({"hidden_size": 64.0}).integer("hidden_size") == 64


@pytest.mark.parametrize("value", [0, -1, 2**31 + 1, 2**70, 1.5, "64", True, [64], {}, float("inf"), float("nan")])
def test_what_is_no_size_is_refused_under_the_name_it_stands_under(value: Any) -> None:  # noqa: ANN401  # anything
    with pytest.raises(ConfigError) as caught:
        Fields({"n_embd": value}).integer("hidden_size", "n_embd")

    assert pointer(caught) == "/config/n_embd"


def test_a_missing_size_is_refused_under_its_common_name() -> None:
    with pytest.raises(ConfigError) as caught:
        Fields({}).integer("hidden_size", "n_embd")

    assert pointer(caught) == "/config/hidden_size"


def test_a_refusal_in_an_inner_object_names_the_whole_path() -> None:
    inner = Fields({"attn_config": {"kv_n_heads": 0}}).inner("attn_config")

    assert inner is not None
    with pytest.raises(ConfigError) as caught:
        inner.integer("kv_n_heads")
    assert pointer(caught) == "/config/attn_config/kv_n_heads"


@pytest.mark.parametrize(
    "read",
    [
        lambda fields: fields.flag("x", default=True),
        lambda fields: fields.number("x", 1.0),
        lambda fields: fields.text("x"),
        lambda fields: fields.inner("x"),
        lambda fields: fields.integers("x"),
        lambda fields: fields.per_layer("x", 2),
        lambda fields: fields.choices("x", ("full", "sliding"), 2),
    ],
    ids=["flag", "number", "text", "object", "list", "list by layer", "words"],
)
@pytest.mark.parametrize("value", [object(), [object(), object()]], ids=["a value", "a list"])
def test_every_kind_of_value_is_refused_by_name_when_it_is_another(read: Any, value: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError) as caught:
        read(Fields({"x": value}))

    assert pointer(caught) == "/config/x"


def test_a_list_by_layer_may_be_longer_than_the_layers_and_never_shorter() -> None:
    assert Fields({"x": [1, 0, 1]}).per_layer("x", 2) == (1, 0)
    with pytest.raises(ConfigError):
        Fields({"x": [1]}).per_layer("x", 2)


@pytest.mark.parametrize(
    "value, written",
    [
        (None, "null"),
        (True, "true"),
        ([None], "[null]"),
        ({"a": True}, '{"a": true}'),
        ("it's é", '"it\'s é"'),
        ("\u202e\ud800\n", r'"\u202e\ud800\n"'),
        (1.5, "1.5"),
        ({"a": {1}}, "an object"),
        (10**5000, "a number"),
        (b"x", "a value"),
        ("x" * 50, '"' + "x" * 39 + "…"),
    ],
    ids=[*"abcdefghijk"],
)
def test_a_value_is_shown_as_json_writes_it(value: object, written: str) -> None:
    assert shown(value) == written


def test_a_refusal_repeats_a_value_as_json() -> None:
    with pytest.raises(ConfigError) as caught:
        Fields({"kv_lora_rank": [None]}).integer("kv_lora_rank")

    assert caught.value.faults[0].pointer == "/config/kv_lora_rank"
    assert caught.value.detail.endswith(", not [null].")


def test_a_value_is_shown_short() -> None:
    endless: list[object] = []
    endless.append(endless)

    assert all(len(shown(value)) <= 41 for value in ("x" * 1000, 10**5000, endless, [[0] * 99] * 99))
