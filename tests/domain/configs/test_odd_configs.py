"""Whatever stands in a config, it is read or refused by the field's name: no other exception, and no long thought."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.architecture import Architecture
from service.domain.configs import read_config
from service.domain.errors import ConfigError, NotSupported, QuoteError, UnknownArchitecture
from service.domain.model import from_config
from tests.domain.configs.published import Published, published_models

HUGE = 10**5000
WRONG_TYPES: tuple[Any, ...] = ("many", [[]], {"a": {}}, [None], object(), float("nan"), float("-inf"), 0.5, [{}])
ODD_NUMBERS: tuple[Any, ...] = (-1, 0, 1, 3, 10**9, 2**63, HUGE, 1e308, 7.0, True, False, None, "", [], {})
NESTED: tuple[Any, ...] = (-1, 0, 2**63, HUGE, None)
EACH = pytest.mark.parametrize("published", published_models(), ids=lambda published: str(published.model))


PLAIN: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "vocab_size": 100,
}  # fmt: skip


def read_or_refusal(config: dict[str, Any]) -> Architecture | QuoteError:
    try:
        architecture = read_config(config)
    except (ConfigError, NotSupported, UnknownArchitecture) as refusal:
        return refusal
    assert architecture.parameters >= architecture.active_parameters >= 0
    assert all(0 <= layer < architecture.layers for group in architecture.caches for layer in group.layers)
    return architecture


@EACH
def test_a_value_of_the_wrong_type_is_refused_by_its_name_or_not_looked_at(published: Published) -> None:
    for name in published.config:
        for value in WRONG_TYPES:
            outcome = read_or_refusal({**published.config, name: value})

            pointers = {fault.pointer for fault in getattr(outcome, "faults", ())}
            assert pointers <= {f"/config/{name}"}


@EACH
def test_an_odd_number_is_read_or_refused(published: Published) -> None:
    for name in published.config:
        for value in ODD_NUMBERS:
            outcome = read_or_refusal({**published.config, name: value})

            assert all(fault.pointer.startswith("/config/") for fault in getattr(outcome, "faults", ()))


@EACH
def test_a_missing_field_is_a_default_or_is_named(published: Published) -> None:
    for name in published.config:
        outcome = read_or_refusal({key: value for key, value in published.config.items() if key != name})

        assert all(fault.pointer.startswith("/config/") for fault in getattr(outcome, "faults", ()))


@EACH
def test_odd_values_of_nested_configs_are_read_or_refused(published: Published) -> None:
    for outer, inner in published.config.items():
        for name in inner if isinstance(inner, dict) else ():
            for value in (*NESTED, *WRONG_TYPES):
                read_or_refusal({**published.config, outer: {**inner, name: value}})
            read_or_refusal({**published.config, outer: {k: v for k, v in inner.items() if k != name}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
OPTIONS = (
    "layer_types", "mlp_layer_types", "moe_layer_freq", "sliding_window", "use_sliding_window", "max_window_layers",
    "sliding_window_pattern", "head_dim", "num_key_value_heads", "attn_config", "ffn_config", "quantization_config",
    "num_nextn_predict_layers", "tie_word_embeddings", "mlp_only_layers", "torch_dtype", "moe_layers_enum",
)  # fmt: skip


@given(
    st.sampled_from(published_models()),
    st.dictionaries(st.sampled_from(OPTIONS) | st.integers(0, 30), JSON, max_size=4),
)
def test_mutated_configs_are_read_or_refused(published: Published, changes: dict[str | int, Any]) -> None:
    names = list(published.config)
    mutated = {name if isinstance(name, str) else names[name % len(names)]: value for name, value in changes.items()}

    read_or_refusal({**published.config, **mutated})


@pytest.mark.parametrize("name", ["torch_dtype", "dtype"])
@pytest.mark.parametrize("stated", ["float64", "float8_e4m3fn", "bf-16", "quantized"])
def test_a_type_that_no_model_computes_in_is_refused_by_name(name: str, stated: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_config({**PLAIN, name: stated})

    assert refused.value.faults[0].pointer == f"/config/{name}"
    assert "bfloat16" in refused.value.faults[0].detail


@pytest.mark.parametrize(
    "stated, compute",
    [("torch.float16", "fp16"), ("half", "fp16"), ("auto", "bf16"), (None, "bf16"), ("float", "fp32")],
)
def test_a_type_is_read_in_each_of_its_forms(stated: str | None, compute: str) -> None:
    assert from_config({**PLAIN, "torch_dtype": stated}).compute_type == compute
