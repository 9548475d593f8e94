"""The models: names by the contract's rule, counts against closed forms and hub, configs without contradiction."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.catalog.catalog_files import Facts, entries, slug
from tests.catalog.closed_forms import CLOSED_FORMS

STATED_TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
SIXTEEN_BIT = {"bf16", "fp16"}
SHAPELESS = {"rope_theta", "query_pre_attn_scalar", "bos_token_id", "eos_token_id", "transformers_version", "auto_map"}


def models() -> dict[str, Facts]:
    return entries("model")


def language_config(model: Facts) -> Mapping[str, Any]:
    config: Mapping[str, Any] = model["config"]
    return config.get("text_config") or config


def with_closed_form() -> dict[str, tuple[Facts, Callable[[Mapping[str, Any]], int]]]:
    found = {name: (model, CLOSED_FORMS.get(model["config"]["model_type"])) for name, model in models().items()}
    return {name: (model, form) for name, (model, form) in found.items() if form}


def test_an_id_is_the_slug_of_the_hub_id() -> None:
    assert [name for name, model in models().items() if slug(model["hub_id"]) != name] == []


@pytest.mark.parametrize(
    "hub_id, name",
    [("meta-llama/Llama-2-7b-hf", "llama-2-7b"), ("meta-llama/Llama-2-13b-hf", "llama-2-13b"),
     ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b-chat"), ("Qwen/Qwen2.5-7B", "qwen2.5-7b"),
     ("nvidia/Llama-3.1-Nemotron-70B-Instruct-HF", "llama-3.1-nemotron-70b-instruct")],
)  # fmt: skip
def test_the_slug_rule_holds_for_names_that_test_it(hub_id: str, name: str) -> None:
    assert models()[name]["hub_id"] == hub_id


def test_a_count_is_the_closed_form_of_its_config() -> None:
    counted = with_closed_form()

    assert len(counted) >= 120
    assert {n: m["parameters"]["count"] for n, (m, _) in counted.items()} == {
        n: form(m["config"]) for n, (m, form) in counted.items()
    }


def test_a_count_that_is_called_exact_equals_the_hubs() -> None:
    exact = [model["parameters"] for model in models().values() if model["parameters"]["status"] == "exact"]

    assert len(exact) > 200
    assert [counts for counts in exact if counts["count"] != counts["published"]] == []


def test_no_token_uses_more_parameters_than_there_are() -> None:
    counts = {name: model["parameters"] for name, model in models().items()}

    assert [name for name, of in counts.items() if of["active"] > of["count"]] == []
    assert counts["llama-2-7b"]["active"] == counts["llama-2-7b"]["count"]
    assert counts["mixtral-8x7b-v0.1"]["active"] < counts["mixtral-8x7b-v0.1"]["count"] / 3


def test_the_context_is_the_one_the_config_publishes() -> None:
    published = {name: language_config(model).get("max_position_embeddings") for name, model in models().items()}

    assert [name for name, tokens in published.items() if tokens not in {None, models()[name]["context_tokens"]}] == []


def test_a_checkpoint_is_stored_in_formats_of_the_catalog() -> None:
    checkpoints = {name: model["checkpoint"] for name, model in models().items()}
    used = {name: {of["dtype"], *of.get("module_dtypes", {}).values()} for name, of in checkpoints.items()}

    known = {name for name, of in entries("dtype").items() if "weight" in of["roles"]}

    assert [name for name, formats in used.items() if not formats <= known] == []


def test_a_plain_checkpoint_is_of_the_type_its_config_states() -> None:
    plain = {n: m for n, m in models().items() if m["checkpoint"]["dtype"] in STATED_TYPES.values()}
    stated = {name: model["config"].get("torch_dtype", model["config"].get("dtype")) for name, model in plain.items()}

    assert [n for n, t in stated.items() if t and STATED_TYPES[t] != plain[n]["checkpoint"]["dtype"]] == []


def test_a_plain_checkpoint_is_not_said_to_be_quantized() -> None:
    assert [
        name
        for name, model in models().items()
        if model["checkpoint"]["dtype"] in STATED_TYPES.values()
        and ("quantization_config" in model["config"] or "quantization_config" in language_config(model))
    ] == []


def test_a_16_bit_estimate_is_two_bytes_a_parameter() -> None:
    plain = {n: m for n, m in models().items() if m["checkpoint"]["dtype"] in SIXTEEN_BIT}
    estimates = {n: m["checkpoint"]["weight_bytes_estimate"] for n, m in plain.items()}

    assert [n for n, b in estimates.items() if b not in {None, 2 * plain[n]["parameters"]["count"]}] == []


def test_a_config_holds_only_what_decides_weights_cache_and_state() -> None:
    assert [n for n, m in models().items() if SHAPELESS & {*m["config"], *language_config(m)}] == []


def test_heads_divide_into_groups() -> None:
    configs = {name: language_config(model) for name, model in models().items()}
    grouped = {name: c for name, c in configs.items() if isinstance(c.get("num_key_value_heads"), int)}

    assert len(grouped) > 300
    assert [n for n, c in grouped.items() if c["num_attention_heads"] % c["num_key_value_heads"]] == []


def test_layer_lists_are_as_long_as_there_are_layers() -> None:
    listed = {n: c for n, m in models().items() if "layer_types" in (c := language_config(m))}

    assert listed
    assert [n for n, c in listed.items() if len(c["layer_types"]) != c["num_hidden_layers"]] == []


@pytest.mark.parametrize(
    "alias, name",
    [("meta-llama/Meta-Llama-3-70B", "meta-llama-3-70b-instruct"), ("meta-llama/Llama-3.1-8B", "meta-llama-3.1-8b"),
     ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"), ("Qwen/Qwen2-7B", "qwen2-7b-instruct"),
     ("mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b-v0.1"),
     ("tiiuae/falcon-40b-instruct", "falcon-40b")],
)  # fmt: skip
def test_a_sibling_of_the_same_shape_leads_to_the_entry(alias: str, name: str) -> None:
    assert alias in models()[name]["aliases"]


def test_an_alias_never_leads_from_a_16_bit_name_to_another_format() -> None:
    named = {alias: model for model in models().values() for alias in model["aliases"] if alias.endswith("BF16")}

    assert named
    assert [alias for alias, model in named.items() if model["checkpoint"]["dtype"] != "bf16"] == []
