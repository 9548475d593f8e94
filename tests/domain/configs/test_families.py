"""What the families' switches do, where no published model shows it."""

from collections.abc import Callable
from typing import Any

import pytest

from service.domain.architecture import Architecture, Module, ModuleKind, Shard
from service.domain.cache.base import CacheKind
from service.domain.configs import read_config
from tests.domain.configs.published import named


def changed(model: str, **changes: Any) -> Architecture:  # noqa: ANN401  # a config holds anything
    return read_config({**named(model), **changes})


def without(model: str, *names: str) -> Architecture:
    return read_config({name: value for name, value in named(model).items() if name not in names})


def windows(architecture: Architecture) -> list[int | None]:
    by_layer = {layer: group.spec.window_tokens for group in architecture.caches for layer in group.layers}
    return [by_layer[layer] for layer in range(architecture.layers)]


def module(architecture: Architecture, name: str) -> Module:
    return next(m for m in architecture.modules if m.name == name)


def test_silence_is_the_model_codes_default_and_is_said() -> None:
    architecture = without("mistralai/Mistral-7B-v0.1", "num_hidden_layers", "num_key_value_heads")

    assert architecture.parameters == 7_241_732_096
    assert architecture.assumptions == ("num_hidden_layers 32: the config is silent, the model code's own default",)


def test_a_null_is_an_answer_and_not_silence() -> None:
    assert changed("mistralai/Mistral-7B-v0.1", num_key_value_heads=None).kv_heads == 32
    assert without("mistralai/Mistral-7B-v0.1", "num_key_value_heads").kv_heads == 8


def test_a_stated_head_width_wins_over_hidden_size_over_heads() -> None:
    spec = read_config(named("mistralai/Mistral-Nemo-Instruct-2407")).caches[0].spec

    assert (spec.key_width, spec.value_width) == (128, 128)


def test_qwen2_ignores_a_window_that_is_not_switched_on() -> None:
    assert set(windows(changed("Qwen/Qwen2.5-7B-Instruct", sliding_window=4096, use_sliding_window=False))) == {None}


def test_qwen2_slides_in_the_upper_layers_when_switched_on() -> None:
    architecture = changed(
        "Qwen/Qwen2.5-7B-Instruct", sliding_window=4096, use_sliding_window=True, max_window_layers=20
    )

    assert windows(architecture) == [None] * 20 + [4096] * 8


def test_qwen3_moe_slides_in_every_layer_when_switched_on() -> None:
    architecture = changed("Qwen/Qwen3-30B-A3B", sliding_window=4096, use_sliding_window=True)

    assert set(windows(architecture)) == {4096}


def test_gemma2_slides_in_even_layers() -> None:
    assert windows(read_config(named("google/gemma-2-2b")))[:4] == [4096, None, 4096, None]


def test_layer_types_win_over_the_pattern_and_may_be_longer_than_the_layers() -> None:
    words = ["full_attention"] * 20 + ["sliding_attention"] * 20

    architecture = changed("google/gemma-2-2b", layer_types=words)

    assert windows(architecture) == [None] * 20 + [4096] * 6


def test_a_window_as_long_as_the_longest_sequence_is_full_attention() -> None:
    architecture = read_config(named("microsoft/Phi-3.5-mini-instruct"))

    assert {group.spec.kind for group in architecture.caches} == {CacheKind.FULL}


@pytest.mark.parametrize(
    "model, layout, kv_heads",
    [
        ("tiiuae/falcon-7b", {}, 1),
        ("tiiuae/falcon-7b", {"multi_query": False}, 71),
        ("tiiuae/falcon-40b", {}, 8),
        ("mosaicml/mpt-7b", {"attn_config": {"attn_type": "multiquery_attention"}}, 1),
        ("mosaicml/mpt-7b", {"attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 8}}, 8),
        ("bigcode/starcoder", {}, 1),
        ("bigcode/starcoder", {"multi_query": False}, 48),
        ("openai-community/gpt2-xl", {"num_key_value_heads": 5}, 25),
        ("zai-org/chatglm3-6b", {"multi_query_attention": False}, 32),
    ],
)
def test_heads_are_grouped_as_the_layout_says(model: str, layout: dict[str, Any], kv_heads: int) -> None:
    assert changed(model, **layout).kv_heads == kv_heads


def test_mimo_keeps_wider_keys_than_values_and_more_heads_in_a_window() -> None:
    specs = [group.spec for group in read_config(named("XiaomiMiMo/MiMo-V2-Flash")).caches]

    assert [(s.kv_heads, s.key_width, s.value_width, s.window_tokens) for s in specs] == [
        (4, 192, 128, None),
        (8, 192, 128, 128),
    ]


def test_step_has_more_query_heads_where_there_is_a_window() -> None:
    groups = read_config(named("stepfun-ai/Step-3.5-Flash")).caches

    assert {(group.query_heads, group.spec.kv_heads, group.spec.window_tokens) for group in groups} == {
        (64, 8, None),
        (96, 8, 512),
    }


def test_a_narrower_embedding_is_projected_into_the_layers() -> None:
    narrow = changed("facebook/opt-1.3b", word_embed_proj_dim=512)

    assert module(narrow, "embed_tokens").columns == 512
    assert module(narrow, "project_in").parameters == module(narrow, "project_out").parameters == 512 * 2048


def test_norms_without_weights_count_nothing() -> None:
    kinds = {m.kind for m in read_config(named("allenai/OLMo-7B-hf")).modules}

    assert ModuleKind.NORM not in kinds


def test_a_tied_head_stands_once() -> None:
    tied, apart = (changed("meta-llama/Meta-Llama-3-8B", tie_word_embeddings=flag) for flag in (True, False))

    assert apart.parameters - tied.parameters == 128256 * 4096
    assert [m.kind for m in tied.modules].count(ModuleKind.HEAD) == 0


def test_qwen2_moe_leaves_named_layers_dense() -> None:
    architecture = changed("Qwen/Qwen1.5-MoE-A2.7B-Chat", mlp_only_layers=[0, 3])

    assert module(architecture, "gate_proj").layers == (0, 3)
    assert 3 not in module(architecture, "router").layers


def test_experts_are_visited_a_few_at_a_time() -> None:
    architecture = read_config(named("mistralai/Mixtral-8x7B-v0.1"))

    assert architecture.experts == (8, 2)


def test_key_and_value_projections_divide_by_kv_heads_and_the_output_by_columns() -> None:
    architecture = read_config(named("meta-llama/Meta-Llama-3-8B"))

    assert (module(architecture, "k_proj").shard, module(architecture, "k_proj").heads) == (Shard.KV_ROWS, 8)
    assert module(architecture, "o_proj").shard is Shard.COLUMNS


def test_prediction_layers_are_as_many_as_the_config_counts() -> None:
    one, two = (changed("XiaomiMiMo/MiMo-7B-Base", num_nextn_predict_layers=count) for count in (1, 2))

    assert one.parameters == two.parameters
    assert 2 * predicted(one) == predicted(two) == 2 * 210_790_400


def predicted(architecture: Architecture) -> int:
    return sum(m.parameters for m in architecture.modules if m.kind is ModuleKind.PREDICTION)


def slides(layers: int, where: Callable[[int], bool]) -> list[int | None]:
    return [4096 if where(layer) else None for layer in range(layers)]


def test_qwen2_moe_slides_in_every_other_of_the_lower_layers_when_switched_on() -> None:
    architecture = changed(
        "Qwen/Qwen1.5-MoE-A2.7B-Chat", sliding_window=4096, use_sliding_window=True, max_window_layers=5
    )

    assert windows(architecture) == slides(24, lambda layer: layer in {0, 2, 4})


def test_smollm3_slides_in_the_layers_without_positions_when_switched_on() -> None:
    switched = {"sliding_window": 4096, "use_sliding_window": True}
    spaced = changed("HuggingFaceTB/SmolLM3-3B", **switched)
    listed = changed("HuggingFaceTB/SmolLM3-3B", **switched, no_rope_layers=[0, 1] * 18)

    assert windows(spaced) == slides(36, lambda layer: layer % 4 == 3)
    assert windows(listed) == slides(36, lambda layer: layer % 2 == 0)


def test_dots1_slides_in_the_upper_layers_unless_its_window_is_null() -> None:
    upper = changed("transformers/dots1", max_window_layers=30)
    none = changed("transformers/dots1", max_window_layers=30, sliding_window=None)

    assert windows(upper) == slides(62, lambda layer: layer >= 30)
    assert windows(none) == [None] * 62


def test_mimo_slides_where_its_layer_types_say_in_place_of_its_pattern() -> None:
    words = ["full_attention"] * 2 + ["sliding_attention"] * 46

    architecture = changed("XiaomiMiMo/MiMo-V2-Flash", hybrid_layer_pattern=None, layer_types=words)

    assert windows(architecture) == [None] * 2 + [128] * 46


def test_arctic_without_a_residual_mlp_has_experts_alone() -> None:
    both, alone = (changed("Snowflake/snowflake-arctic-instruct", parallel_attn_mlp_res=flag) for flag in (True, False))

    assert both.parameters - alone.parameters == 35 * (3 * 7168 * 7168 + 7168)
    assert both.experts == alone.experts == (128, 2)


def test_step_gates_heads_or_every_element_of_them() -> None:
    by_head, by_element = (changed("stepfun-ai/Step-3.5-Flash", gating=word) for word in ("per-head", "elementwise"))

    assert by_element.parameters - by_head.parameters == 4096 * (12 * 64 + 33 * 96) * 127


def test_hyperclovax_norms_behind_attention_and_mlp_unless_its_file_says_not() -> None:
    model = "naver-hyperclovax/HyperCLOVAX-SEED-Think-14B"

    assert read_config(named(model)).parameters == without(model, "use_post_norm").parameters
    assert read_config(named(model)).parameters - changed(model, use_post_norm=False).parameters == 2 * 38 * 6144
