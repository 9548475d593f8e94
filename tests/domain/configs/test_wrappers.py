"""Wrappers: a decoder's config inside another, with encoders that count and keep nothing."""

from typing import Any

import pytest

from service.domain.architecture import Architecture, ModuleKind, Place
from service.domain.configs import read_config
from service.domain.errors import ConfigError, UnknownArchitecture
from tests.domain.configs.published import Published, named, published_models

LLAVA, QWEN, MISTRAL = "llava-hf/llava-1.5-7b-hf", "Qwen/Qwen3-VL-2B-Instruct", "mistralai/Ministral-3-3B-Instruct-2512"
WRAPPED = [p for p in published_models() if {"text_config", "vision_config", "thinker_config"} & set(p.config)]
ENCODERS = {ModuleKind.VISION, ModuleKind.AUDIO}


def encoder_parameters(architecture: Architecture) -> int:
    return sum(m.parameters for m in architecture.modules if m.kind in ENCODERS)


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(config)
    return caught.value.faults[0].pointer


@pytest.mark.parametrize(
    "model, parameters",
    [
        ("Qwen/Qwen3.5-27B", 460_730_096),
        ("Qwen/Qwen3-VL-32B-Instruct", 595_266_800),
        ("Qwen/Qwen2-VL-7B-Instruct", 675_759_104),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 676_550_144),
        ("google/gemma-3-27b-it", 423_060_336),
        ("google/gemma-4-26B-A4B", 572_792_112),
        ("google/gemma-4-12B-it", 52_379_904),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 871_932_416),
        ("meta-llama/Llama-3.2-90B-Vision-Instruct", 926_490_131),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", 438_958_080),
        ("moonshotai/Kimi-K2.5", 471_143_920),
    ],
)
def test_what_sees_and_hears_is_counted_as_such(model: str, parameters: int) -> None:
    assert encoder_parameters(read_config(named(model))) == parameters


@pytest.mark.parametrize("published", WRAPPED, ids=lambda published: str(published.model))
def test_encoders_stand_on_the_first_stage(published: Published) -> None:
    encoders = [m for m in read_config(published.config).modules if m.kind in ENCODERS]

    assert encoders
    assert {m.place for m in encoders} == {Place.FIRST}


def test_a_nested_decoder_has_its_own_familys_defaults() -> None:
    architecture = read_config(named(LLAVA))

    assert (architecture.layers, architecture.hidden_size, architecture.model_type) == (32, 4096, "llava")


def test_types_and_formats_are_inherited_from_the_outer_config() -> None:
    quantization = {"quant_method": "fp8", "weight_block_size": [128, 128]}

    architecture = read_config({**named(LLAVA), "quantization_config": quantization, "torch_dtype": "float16"})

    assert (architecture.torch_dtype, architecture.weight_format) == ("float16", "fp8_block128")


def test_the_outer_config_decides_whether_the_head_is_tied() -> None:
    tied, apart = (read_config({**named(QWEN), "tie_word_embeddings": flag}) for flag in (True, False))

    assert apart.parameters - tied.parameters == 151936 * 2048


def test_a_flattened_file_is_read_from_its_top() -> None:
    nested = named(MISTRAL)
    flat = {**nested["text_config"], "model_type": "mistral3", "vision_config": nested["vision_config"]}

    assert read_config(flat).parameters == read_config(nested).parameters


def test_a_missing_encoder_is_the_model_codes_default_and_is_said() -> None:
    silent = {name: value for name, value in named(MISTRAL).items() if name != "vision_config"}

    architecture = read_config(silent)

    assert architecture.parameters == read_config(named(MISTRAL)).parameters
    assert any(note.startswith("vision_config: the config is silent") for note in architecture.assumptions)


def test_gemma_4_without_encoders_has_none() -> None:
    config = {k: v for k, v in named("google/gemma-4-E2B-it").items() if k not in ("vision_config", "audio_config")}

    assert encoder_parameters(read_config(config)) == 0


def test_the_thinker_of_an_omni_model_is_what_is_served() -> None:
    architecture = read_config(named("Qwen/Qwen2.5-Omni-7B"))

    assert any("talker" in note for note in architecture.assumptions)
    assert architecture.layers == 28


def test_a_field_of_the_nested_decoder_is_named_by_its_path() -> None:
    config = named(LLAVA)

    assert refusal({**config, "text_config": {**config["text_config"], "hidden_size": 0}}) == (
        "/config/text_config/hidden_size"
    )


def test_an_inherited_field_is_named_where_it_stands() -> None:
    assert refusal({**named(LLAVA), "quantization_config": [4]}) == "/config/quantization_config"


def test_a_decoder_that_no_reader_knows_is_named_inside_its_wrapper() -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        read_config({**named(LLAVA), "text_config": {"model_type": "novel", "hidden_size": 64}})

    assert caught.value.faults[0].pointer == "/config/text_config/model_type"


def test_an_encoder_that_is_not_known_is_refused() -> None:
    assert refusal({**named(LLAVA), "vision_config": {"model_type": "novel_vision"}}) == (
        "/config/vision_config/model_type"
    )


def test_a_thinker_that_is_saved_alone_is_read_as_inside_its_omni_model() -> None:
    whole = named("Qwen/Qwen2.5-Omni-7B")

    alone = read_config(whole["thinker_config"])

    assert (alone.parameters, alone.caches) == (read_config(whole).parameters, read_config(whole).caches)
    assert not any("talker" in note for note in alone.assumptions)


def test_a_flattened_step_without_an_encoder_is_its_decoder_alone() -> None:
    config = named("stepfun-ai/Step-3.7-Flash")

    flat = read_config({**config["text_config"], "model_type": "step3p7"})

    assert encoder_parameters(flat) == 0
    assert flat.parameters == read_config(config).parameters - encoder_parameters(read_config(config))


def test_the_chat_files_of_internvl_have_biases_in_their_encoder_unless_they_say_otherwise() -> None:
    config = named("transformers/internvl")
    chat = {"model_type": "internvl_chat", "llm_config": config["text_config"], "vision_config": {}}

    silent, bare = (read_config({**chat, "vision_config": vision}) for vision in ({}, {"qkv_bias": False}))

    assert silent.parameters - bare.parameters == 24 * 3 * 1024
