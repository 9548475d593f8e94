"""What a quantization_config says, in the words of the catalog's number formats."""

from typing import Any

import pytest

from service.domain.configs.checkpoint import Formats, checkpoint_formats
from service.domain.configs.fields import Fields
from service.domain.errors import ConfigError, NotSupported


def formats(quantization: Any) -> Formats:  # noqa: ANN401  # whatever a config holds
    return checkpoint_formats(Fields({"quantization_config": quantization}))


def compressed(**weights: Any) -> dict[str, Any]:  # noqa: ANN401  # as above
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


def with_activations(scheme: dict[str, Any]) -> dict[str, Any]:
    scheme["config_groups"]["group_0"]["input_activations"] = {"num_bits": 8, "type": "int", "strategy": "token"}
    return scheme


SCHEMES: dict[str, tuple[dict[str, Any], str]] = {
    "fp8 in blocks": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block128"),
    "fp8 in small blocks": ({"quant_method": "fp8", "weight_block_size": [32, 32]}, "fp8_block32"),
    "fp8 by tensor": ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_tensor"),
    "fbgemm": ({"quant_method": "fbgemm_fp8"}, "fp8"),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq"),
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq"),
    "fp8 by channel": (compressed(num_bits=8, type="float", strategy="channel"), "fp8"),
    "int8 by channel": (with_activations(compressed(num_bits=8, type="int", strategy="channel")), "w8a8"),
    "packed int4": (compressed(num_bits=4, type="int", strategy="group", group_size=128), "w4a16"),
    "packed int4 in groups of 64": (compressed(num_bits=4, type="int", strategy="group", group_size=64), "w4a16_g64"),
    "packed int4 in small groups": (compressed(num_bits=4, type="int", group_size=32), "w4a16_g32"),
    "packed int4 by channel": (compressed(num_bits=4, type="int", strategy="channel"), "w4a16_channel"),
    "packed int8 in groups": (compressed(num_bits=8, type="int", strategy="group", group_size=128), "w8a16_g128"),
    "int8 weights alone": (compressed(num_bits=8, type="int", strategy="channel"), "w8a16"),
    "awq in smaller groups": ({"quant_method": "awq", "bits": 4, "group_size": 64}, "awq_g64"),
    "awq in small groups": ({"quant_method": "awq", "w_bit": 4, "q_group_size": 32}, "awq_g32"),
    "gptq in smaller groups": ({"quant_method": "gptq", "bits": 4, "group_size": 64}, "gptq_g64"),
    "gptq in small groups": ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "gptq_g32"),
    "gptq by channel": ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "gptq_channel"),
    "gptq in 8 bits": ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "gptq_int8"),
    "gptq in 8 bits and small groups": ({"quant_method": "gptq", "bits": 8, "group_size": 32}, "gptq_int8_g32"),
    "gptq in 8 bits by channel": ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq_int8_channel"),
    "auto-round": ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, "gptq"),
    "compressed nvfp4": (compressed(num_bits=4, type="float", group_size=16), "nvfp4"),
    "modelopt fp8": ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8_tensor"),
    "modelopt nvfp4": ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}}, "nvfp4"),
    "nf4": ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4"),
    "nf4 once": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4_single"),
    "int8 of bitsandbytes": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb_int8"),
    "mxfp4": ({"quant_method": "mxfp4"}, "mxfp4"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_is_a_number_format_of_the_catalog(scheme: str) -> None:
    quantization, name = SCHEMES[scheme]

    assert formats(quantization).weight == name


def test_an_unquantized_checkpoint_asks_for_nothing() -> None:
    assert checkpoint_formats(Fields({})) == Formats(None, None, ())


@pytest.mark.parametrize(
    "scheme, cache",
    [
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({"kv_cache_scheme": None}, None),
    ],
    ids=["a scheme", "an algorithm", "nvfp4", "nested", "null"],
)
def test_a_cache_scheme_decides_the_cache_format(scheme: dict[str, Any], cache: str | None) -> None:
    assert formats({"quant_method": "modelopt", "quant_algo": "FP8", **scheme}).cache == cache


def test_a_mixed_checkpoint_has_the_formats_that_it_lists() -> None:
    layers = {"layers.0.mlp": {"quant_algo": "W4A16_NVFP4"}, "layers.0.self_attn": {"quant_algo": "FP8"}}

    found = formats({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers})

    assert found.weight == "nvfp4"
    assert [(rule.pattern, rule.format) for rule in found.rules] == [
        ("layers.0.mlp", "nvfp4"),
        ("layers.0.self_attn", "fp8_tensor"),
        ("", None),
    ]


def test_a_mixed_checkpoint_that_does_not_say_where_comes_with_a_warning() -> None:
    found = formats({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})

    assert "mixes" in found.warnings[0]


def test_a_list_of_what_is_left_alone_is_whole() -> None:
    scheme = compressed(num_bits=8, type="float", strategy="channel")
    scheme["config_groups"]["group_0"]["targets"] = ["Linear"]

    rules = formats({**scheme, "ignore": ["lm_head"]}).rules

    assert [(rule.pattern, rule.format) for rule in rules] == [("lm_head", None), ("", "fp8"), ("lm_head", "fp8")]


@pytest.mark.parametrize("ignored", ["lm_head", ["lm_head", 1], {"lm_head": True}], ids=["text", "number", "object"])
def test_a_list_that_holds_anything_but_names_is_refused_by_field(ignored: Any) -> None:  # noqa: ANN401  # as above
    with pytest.raises(ConfigError) as caught:
        formats({"quant_method": "fp8", "modules_to_not_convert": ignored})

    assert caught.value.faults[0].pointer == "/config/quantization_config/modules_to_not_convert"


@pytest.mark.parametrize(
    "quantization",
    [
        {},
        {"quant_method": "aqlm"},
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "awq", "group_size": 16},
        {"quant_method": "awq", "bits": 8, "group_size": 128},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"},
        {"quant_method": "bitsandbytes"},
    ],
    ids=["nothing", "method", "bits", "group", "bits of awq", "no groups", "algorithm", "no width"],
)
def test_a_scheme_without_a_format_is_not_supported(quantization: dict[str, Any]) -> None:
    with pytest.raises(NotSupported):
        formats(quantization)


def test_blocks_of_another_size_are_refused_by_name() -> None:
    with pytest.raises(ConfigError) as caught:
        formats({"quant_method": "fp8", "weight_block_size": [64, 64]})

    assert caught.value.faults[0].pointer == "/config/quantization_config/weight_block_size"


def test_a_group_in_a_scheme_that_no_format_describes_is_named() -> None:
    known = {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
    groups = {"group_0": known, "odd": {"weights": {"num_bits": 3, "type": "int"}}}

    with pytest.raises(NotSupported) as caught:
        formats({"quant_method": "compressed-tensors", "config_groups": groups})

    assert caught.value.faults[0].pointer == "/config/quantization_config/config_groups"
    assert '"odd"' in caught.value.detail


def test_a_module_in_an_algorithm_that_no_format_describes_is_refused() -> None:
    layers = {"layers.0.mlp": {"quant_algo": "FP8"}, "layers.1.mlp": {"quant_algo": "INT3"}}

    with pytest.raises(ConfigError) as caught:
        formats({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers})

    assert caught.value.faults[0].pointer == "/config/quantization_config/quantized_layers"
