"""Families that carry a state, keep windows or chunks, share caches, or look at an encoder's output."""

from typing import Any

import pytest

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Place, Shard
from service.domain.cache.base import CacheKind
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.configs import read_config
from tests.domain.configs.published import named

NANO = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
NEXT, HALF = "Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3.5-27B"
SMALL = "ibm-granite/granite-4.0-h-small"


def changed(model: str, **changes: Any) -> Architecture:  # noqa: ANN401  # a config holds anything
    return read_config({**named(model), **changes})


def inner(model: str, part: str, **changes: Any) -> Architecture:  # noqa: ANN401  # a config holds anything
    config = named(model)
    return read_config({**config, part: {**config[part], **changes}})


def module(architecture: Architecture, name: str) -> Module:
    return next(m for m in architecture.modules if m.name == name)


def kind(architecture: Architecture, wanted: CacheKind) -> list[CacheLayers]:
    return [group for group in architecture.caches if group.spec.kind is wanted]


def state(architecture: Architecture) -> RecurrentCache:
    (group,) = kind(architecture, CacheKind.RECURRENT)
    assert isinstance(group.spec, RecurrentCache)
    return group.spec


@pytest.mark.parametrize(
    "model, mixer, conv, elements",
    [
        ("state-spaces/mamba-2.8b-hf", Mixer.MAMBA1, 5120 * 3, 5120 * 16),
        ("ai21labs/Jamba-v0.1", Mixer.MAMBA1, 8192 * 3, 8192 * 16),
        (NANO, Mixer.MAMBA2, 18432, 524288),
        (HALF, Mixer.GATED_DELTA, 30720, 786432),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", Mixer.KIMI_DELTA, 36864, 524288),
        ("MiniMaxAI/MiniMax-Text-01", Mixer.LIGHTNING, 0, 1048576),
        ("LiquidAI/LFM2-1.2B", Mixer.SHORT_CONVOLUTION, 4096, 0),
    ],
)
def test_each_mixer_keeps_its_state_and_the_last_inputs_of_its_convolution(
    model: str, mixer: Mixer, conv: int, elements: int
) -> None:
    spec = state(read_config(named(model)))

    assert (spec.mixer, spec.conv_elements, spec.state_elements) == (mixer, conv, elements)


@pytest.mark.parametrize(
    "model, part, says, bytes_an_element",
    [
        (NANO, None, {}, 4),
        (NANO, None, {"mamba_ssm_cache_dtype": "bfloat16"}, 2),
        (HALF, "text_config", {}, 4),
        (HALF, "text_config", {"mamba_ssm_dtype": "bfloat16"}, 2),
        (NEXT, None, {"mamba_ssm_dtype": "float32"}, 2),
        (SMALL, None, {}, 2),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", None, {}, 4),
    ],
)
def test_the_type_of_a_state_is_the_familys_rule(
    model: str, part: str | None, says: dict[str, Any], bytes_an_element: int
) -> None:
    architecture = inner(model, part, **says) if part else changed(model, **says)

    assert (state(architecture).state_element_bytes, state(architecture).conv_element_bytes) == (bytes_an_element, 2)


def test_a_pattern_says_what_each_layer_is_and_how_many_there_are() -> None:
    config = {k: v for k, v in named(NANO).items() if k != "hybrid_override_pattern"}

    architecture = read_config({**config, "hybrid_override_pattern": "M*-E", "num_hidden_layers": 52})

    assert architecture.layers == 4
    assert [(g.spec.kind, g.layers) for g in architecture.caches] == [
        (CacheKind.FULL, (1,)),
        (CacheKind.RECURRENT, (0,)),
    ]
    assert module(architecture, "router").layers == (3,)


def test_older_and_newer_words_for_layers_mean_the_same() -> None:
    newer = {"mamba": "linear_attention", "attention": "full_attention"}
    words = [newer[word] for word in named(SMALL)["layer_types"]]

    assert changed(SMALL, layer_types=words).caches == read_config(named(SMALL)).caches


def test_granite_without_experts_has_none() -> None:
    assert read_config(named("ibm-granite/granite-4.0-h-micro")).experts == (0, 0)


def test_falcon_h1_keeps_tokens_and_a_state_in_every_layer() -> None:
    assert [len(g.layers) for g in read_config(named("tiiuae/Falcon-H1-34B-Instruct")).caches] == [72, 72]


def test_zamba_stores_a_block_once_and_caches_each_of_its_uses() -> None:
    architecture = read_config(named("transformers/zamba2"))

    assert module(architecture, "q_proj").layers == (6,)
    assert kind(architecture, CacheKind.FULL)[0].layers == (6, 12, 18, 24, 30, 36, 42, 47, 51)
    assert len(kind(architecture, CacheKind.RECURRENT)[0].layers) == 54


def test_mixer_parts_of_a_group_are_divided_by_groups() -> None:
    architecture = read_config(named(NANO))

    assert (module(architecture, "in_proj.groups").shard, module(architecture, "in_proj.groups").heads) == (
        Shard.KV_ROWS,
        8,
    )


@pytest.mark.parametrize(
    "said, full", [({"attn_type_list": [0, 1, 0, 1]}, (1, 3)), ({}, (0, 2)), ({"layer_types": ["attention"] * 4}, None)]
)
def test_minimax_lists_ones_for_softmax(said: dict[str, Any], full: tuple[int, ...] | None) -> None:
    config = {k: v for k, v in named("MiniMaxAI/MiniMax-Text-01").items() if k not in ("layer_types", "attn_type_list")}

    architecture = read_config({**config, "num_hidden_layers": 4, **said})

    assert kind(architecture, CacheKind.FULL)[0].layers == (full or (0, 1, 2, 3))


def test_minimax_m3_keeps_all_and_reads_what_its_index_picks() -> None:
    architecture = read_config(named("MiniMaxAI/MiniMax-M3"))

    assert sorted((len(g.layers), g.spec.tokens_read(10**6)) for g in kind(architecture, CacheKind.FULL)) == [
        (3, 10**6),
        (57, 2048),
    ]
    assert len(kind(architecture, CacheKind.INDEXER)[0].layers) == 57


def test_llama4_sees_everything_in_every_fourth_layer() -> None:
    architecture = read_config(named("meta-llama/Llama-4-Scout-17B-16E-Instruct"))

    assert kind(architecture, CacheKind.FULL)[0].layers == tuple(range(3, 48, 4))
    assert [(len(g.layers), g.spec.window_tokens) for g in kind(architecture, CacheKind.CHUNKED)] == [(36, 8192)]


def test_llama4_without_chunks_keeps_everything() -> None:
    whole = inner("meta-llama/Llama-4-Scout-17B-16E-Instruct", "text_config", attention_chunk_size=None)

    assert {g.spec.kind for g in whole.caches} == {CacheKind.FULL}


def test_last_layers_of_gemma_3n_share_what_the_last_owners_keep() -> None:
    architecture = read_config(named("google/gemma-3n-E4B-it"))

    assert sum(len(g.layers) for g in architecture.caches) == 20
    read_by = {g.layers: g.shared_with for g in architecture.caches if g.shared_with}
    assert read_by == {(18,): (20, 21, 22, 23, 25, 26, 27, 28, 30, 31, 32, 33), (19,): (24, 29, 34)}
    assert module(architecture, "k_proj").layers == tuple(range(20))


def test_gemma_4_has_wider_heads_where_it_sees_everything() -> None:
    architecture = read_config(named("google/gemma-4-26B-A4B"))

    shapes = {(g.spec.kind, g.spec.kv_heads, g.spec.key_width, g.spec.value_width) for g in architecture.caches}
    assert shapes == {(CacheKind.FULL, 2, 512, 512), (CacheKind.SLIDING, 8, 256, 256)}


def test_gemma_4_caches_values_that_are_keys() -> None:
    architecture = read_config(named("google/gemma-4-26B-A4B"))

    owners = {layer for m in architecture.modules if m.name == "v_proj" for layer in m.layers}
    assert 5 not in owners
    assert 4 in owners


def test_gemma_4_saved_layer_by_layer_is_the_same() -> None:
    config = named("google/gemma-4-26B-A4B")
    text = {
        k: v for k, v in config["text_config"].items() if k not in ("global_head_dim", "num_global_key_value_heads")
    }
    wide = {str(layer): {"head_dim": 512, "num_key_value_heads": 2} for layer in (5, 11, 17, 23, 29)}

    saved = read_config({**config, "text_config": {**text, "per_layer_config": wide}})

    assert saved.parameters == read_config(config).parameters
    assert saved.caches == read_config(config).caches


def test_nemotron_blocks_keep_what_the_search_left() -> None:
    architecture = read_config(named("nvidia/Llama-3_3-Nemotron-Super-49B-v1"))

    assert sum(len(g.layers) for g in architecture.caches) == 49


def test_a_block_of_one_matrix_has_neither_cache_nor_heads() -> None:
    linear = {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}}

    architecture = changed("nvidia/Llama-3_3-Nemotron-Super-49B-v1", num_hidden_layers=1, block_configs=[linear])

    assert architecture.caches == ()
    assert module(architecture, "linear_attn").elements == 8192 * 8192


def test_whisper_keeps_a_whole_window_of_sound() -> None:
    architecture = read_config(named("openai/whisper-large-v3"))

    assert [(len(g.layers), g.spec.tokens_held(1)) for g in kind(architecture, CacheKind.CROSS)] == [(32, 1500)]
    assert architecture.context_tokens == 448


def test_whisper_assumes_no_heads_under_a_name_that_it_does_not_have() -> None:
    assert read_config(named("openai/whisper-large-v3")).assumptions == ()


def test_t5_counts_a_head_that_the_file_does_not_tie() -> None:
    tied, apart = (changed("google/flan-t5-xxl", tie_word_embeddings=flag) for flag in (True, False))

    assert (tied.parameters, apart.parameters) == (11_003_736_064, 11_135_332_352)


def test_t5_says_how_long_an_input_it_takes() -> None:
    architecture = read_config(named("google-t5/t5-small"))

    assert any("512 tokens" in note for note in architecture.assumptions)


def test_an_encoder_stands_on_the_first_stage_and_owns_no_cache() -> None:
    encoder = [m for m in read_config(named("google-t5/t5-small")).modules if m.kind is ModuleKind.ENCODER]

    assert {m.place for m in encoder} == {Place.FIRST}


def test_mllama_keeps_a_picture_in_its_cross_layers_alone() -> None:
    architecture = read_config(named("meta-llama/Llama-3.2-11B-Vision-Instruct"))

    assert [(g.layers[:2], g.spec.tokens_held(1)) for g in kind(architecture, CacheKind.CROSS)] == [((3, 8), 4 * 1601)]
    assert len(kind(architecture, CacheKind.FULL)[0].layers) == 32


def test_bamba_attends_where_its_words_say_as_where_its_numbers_say() -> None:
    words = ["linear_attention", "full_attention"] * 3

    listed = changed("transformers/bamba", attn_layer_indices=None, layers_block_type=words)

    assert listed.parameters == changed("transformers/bamba", attn_layer_indices=[1, 3, 5]).parameters
    assert [g.layers for g in kind(listed, CacheKind.FULL)] == [(1, 3, 5)]
    assert [g.layers for g in kind(listed, CacheKind.RECURRENT)] == [(0, 2, 4)]


def test_jamba_that_attends_in_every_layer_keeps_no_state() -> None:
    architecture = changed("ai21labs/Jamba-v0.1", attn_layer_period=1, attn_layer_offset=0)

    assert [(g.spec.kind, len(g.layers)) for g in architecture.caches] == [(CacheKind.FULL, 32)]
    assert ModuleKind.MIXER not in {m.kind for m in architecture.modules}


def test_llama_4_sees_chunks_where_its_words_say() -> None:
    words = ["full_attention"] + ["chunked_attention"] * 47

    architecture = inner("meta-llama/Llama-4-Scout-17B-16E-Instruct", "text_config", layer_types=words)

    assert [g.layers for g in kind(architecture, CacheKind.FULL)] == [(0,)]
    assert [g.layers for g in kind(architecture, CacheKind.CHUNKED)] == [tuple(range(1, 48))]


def test_llama_3_2_without_layers_that_look_at_pictures_keeps_none() -> None:
    architecture = inner("meta-llama/Llama-3.2-11B-Vision-Instruct", "text_config", cross_attention_layers=[])

    assert [(g.spec.kind, len(g.layers)) for g in architecture.caches] == [(CacheKind.FULL, 40)]
    assert ModuleKind.CROSS_ATTENTION not in {m.kind for m in architecture.modules}


def test_gemma_3n_of_full_layers_alone_keeps_no_window() -> None:
    architecture = inner("google/gemma-3n-E4B-it", "text_config", layer_types=["full_attention"] * 35)

    assert {g.spec.kind for g in architecture.caches} == {CacheKind.FULL}
    assert [(len(g.layers), g.shared_with) for g in architecture.caches] == [(19, ()), (1, tuple(range(20, 35)))]


def test_a_block_may_have_an_mlp_of_a_stated_width_or_of_one_matrix() -> None:
    none = {"no_op": True}
    blocks = [
        {"attention": none, "ffn": {"replace_with_linear": True}},
        {"attention": none, "ffn": {"intermediate_size": 1000}},
    ]

    architecture = changed("nvidia/Llama-3_3-Nemotron-Super-49B-v1", num_hidden_layers=2, block_configs=blocks)

    assert module(architecture, "linear_mlp").elements == 8192 * 8192
    assert (module(architecture, "up_proj").rows, module(architecture, "up_proj").layers) == (1000, (1,))


def test_ling_3_has_a_gate_for_each_head_and_projections_of_full_rank() -> None:
    modules = {module.name: module for module in read_config(named("inclusionAI/Ling-3.0-tiny")).modules}
    gates = [m for m in read_config(named("inclusionAI/Ling-3.0-tiny")).modules if m.name == "g_proj"]

    assert "f_a_proj" not in modules
    assert (modules["f_proj"].rows, modules["f_proj"].columns) == (2048, 1536)
    assert sorted((gate.rows, len(gate.layers)) for gate in gates) == [(16, 6), (2048, 18)]
