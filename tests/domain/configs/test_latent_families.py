"""Latent attention: what is cached, what is compressed, and how it is divided."""

from typing import Any

import pytest

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.cache.base import CacheKind
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.configs import read_config
from tests.domain.configs.published import named

V3, V32, GLM = "deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5.2"
V4 = "deepseek-ai/DeepSeek-V4-Flash"


def changed(model: str, **changes: Any) -> Architecture:  # noqa: ANN401  # a config holds anything
    return read_config({**named(model), **changes})


def module(architecture: Architecture, name: str) -> Module:
    return next(m for m in architecture.modules if m.name == name)


def kind(architecture: Architecture, wanted: CacheKind) -> list[CacheLayers]:
    return [group for group in architecture.caches if group.spec.kind is wanted]


def growing_bytes(architecture: Architecture, kinds: set[CacheKind]) -> float:
    rows = (len(g.layers) * getattr(g.spec, "key_width", 0) / getattr(g.spec, "tokens_per_row", 1)
            for g in architecture.caches if g.spec.kind in kinds)  # fmt: skip
    return sum(rows)


def test_a_head_size_and_kv_heads_in_the_file_are_decoys() -> None:
    decoyed = changed(GLM, head_dim=192, num_key_value_heads=4)

    assert [g.spec for g in kind(decoyed, CacheKind.LATENT)] == [
        LatentCache(576, 512, read_limit_tokens=2048, expanded_width=512)
    ]


def test_compressing_projections_stand_whole_on_every_rank_and_the_heads_own_are_divided() -> None:
    architecture = read_config(named(V3))

    assert {module(architecture, name).shard for name in ("q_a_proj", "kv_a_proj", "kv_a_norm")} == {Shard.REPLICATED}
    assert (module(architecture, "kv_b_proj").shard, module(architecture, "kv_b_proj").heads) == (Shard.ROWS, 128)
    assert module(architecture, "o_proj").shard is Shard.COLUMNS


def test_without_a_query_rank_queries_are_projected_at_once() -> None:
    architecture = read_config(named("deepseek-ai/DeepSeek-V2-Lite"))

    assert (module(architecture, "q_proj").rows, module(architecture, "q_proj").columns) == (16 * 192, 2048)


def test_first_layers_are_dense_and_the_others_have_experts() -> None:
    architecture = read_config(named(V3))

    assert module(architecture, "gate_proj").layers == (0, 1, 2)
    assert module(architecture, "router").layers == tuple(range(3, 61))
    assert architecture.experts == (256, 8)


def test_an_indexer_keeps_a_key_in_every_layer() -> None:
    assert [(g.spec, len(g.layers)) for g in kind(read_config(named(V32)), CacheKind.INDEXER)] == [
        (IndexerCache(128), 61)
    ]


def test_glm_layers_that_share_picks_own_no_index() -> None:
    (index,) = kind(read_config(named(GLM)), CacheKind.INDEXER)

    assert (len(index.layers), len(index.shared_with)) == (21, 57)
    assert index.layers[:5] == (0, 1, 2, 6, 10)


@pytest.mark.parametrize(
    "said, owners",
    [
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, 21),
        ({"index_topk_pattern": "FS" * 39}, 39),
        ({"index_topk_pattern": ["full", "shared"] * 39}, 39),
        ({}, 78),
    ],
)
def test_glm_says_in_several_ways_which_layers_own_an_index(said: dict[str, Any], owners: int) -> None:
    config = {name: value for name, value in named(GLM).items() if name != "indexer_types"}

    (index,) = kind(read_config({**config, **said}), CacheKind.INDEXER)

    assert len(index.layers) == owners


def test_minicpm3_takes_a_values_width_from_the_hidden_size() -> None:
    assert module(changed("openbmb/MiniCPM3-4B", v_head_dim=None), "o_proj").columns == 40 * 64


def test_longcat_keeps_two_vectors_a_layer() -> None:
    architecture = read_config(named("meituan-longcat/LongCat-Flash-Chat"))

    assert [len(g.layers) for g in kind(architecture, CacheKind.LATENT)] == [28, 28]
    assert module(architecture, "router").rows == 768


def test_longcats_own_word_for_layers_counts_pairs_too() -> None:
    assert changed("meituan-longcat/LongCat-Flash-Chat", num_layers=4).layers == 4


def test_v4_keeps_a_window_in_every_layer_and_groups_of_four_or_128_behind_it() -> None:
    architecture = read_config(named(V4))

    assert [(len(g.layers), g.spec.window_tokens) for g in kind(architecture, CacheKind.SLIDING)] == [(43, 128)]
    ratios = [(len(g.layers), getattr(g.spec, "tokens_per_row", 0)) for g in kind(architecture, CacheKind.LATENT)]
    assert sorted(ratios) == [(20, 128), (21, 4)]


def test_v4_grows_by_a_share_of_a_vector_a_token() -> None:
    architecture = read_config(named(V4))

    assert growing_bytes(architecture, {CacheKind.LATENT}) == 21 * 512 / 4 + 20 * 512 / 128
    assert growing_bytes(architecture, {CacheKind.INDEXER}) == 21 * 128 / 4


def test_v4_holds_back_the_tokens_of_an_unfinished_group() -> None:
    states = [g.spec.fixed_bytes for g in kind(read_config(named(V4)), CacheKind.RECURRENT)]

    assert sorted(states) == [8 * 512 * 4, 8 * 2048 * 4, 128 * 1024 * 4]


def test_kimi_counts_layers_from_one() -> None:
    linear = {"full_attn_layers": [2, 4], "kda_layers": [1, 3], "num_heads": 4, "head_dim": 128}
    config = {k: v for k, v in named("moonshotai/Kimi-Linear-48B-A3B-Instruct").items() if k != "layer_types"}

    architecture = read_config({**config, "num_hidden_layers": 4, "linear_attn_config": linear})

    assert [g.layers for g in kind(architecture, CacheKind.LATENT)] == [(1, 3)]
    assert [g.layers for g in kind(architecture, CacheKind.RECURRENT)] == [(0, 2)]


def test_kimi_k3_has_experts_in_a_narrower_space() -> None:
    architecture = read_config(named("moonshotai/Kimi-K3"))

    assert module(architecture, "experts.gate_proj").columns == 3584
    assert module(architecture, "routed_expert_norm").rows == 3584


def test_prediction_layers_are_no_part_of_the_model() -> None:
    bare, predicting = (changed(V3, num_nextn_predict_layers=count) for count in (0, 1))

    assert bare.parameters == predicting.parameters
    assert not [m for m in bare.modules if m.kind is ModuleKind.PREDICTION]


def test_kimi_k3_may_have_its_narrower_experts_without_a_norm() -> None:
    config = named("moonshotai/Kimi-K3")

    bare = read_config({**config, "text_config": {**config["text_config"], "latent_moe_use_norm": False}})

    assert read_config(config).parameters - bare.parameters == 92 * 3584


def test_kimi_linear_of_latent_layers_alone_keeps_no_state() -> None:
    architecture = changed("moonshotai/Kimi-Linear-48B-A3B-Instruct", layer_types=["full_attention"] * 27)

    assert [(g.spec.kind, len(g.layers)) for g in architecture.caches] == [(CacheKind.LATENT, 27)]
    assert ModuleKind.MIXER not in {m.kind for m in architecture.modules}


def test_minimax_m3_has_index_keys_where_its_marks_say() -> None:
    marks = {"sparse_attention_freq": [0] * 58 + [1, 1]}

    architecture = changed("MiniMaxAI/MiniMax-M3", sparse_attention_config=marks)

    assert [g.layers for g in kind(architecture, CacheKind.INDEXER)] == [(58, 59)]
    assert module(architecture, "indexer.k_proj").layers == (58, 59)
