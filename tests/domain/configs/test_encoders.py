"""Encoders that files name or describe by options of their own, and decoders that stand only behind them."""

from copy import deepcopy
from typing import Any

import pytest

from service.domain.architecture import Architecture, ModuleKind
from service.domain.cache.base import CacheKind
from service.domain.cache.full import FullCache
from service.domain.configs import read_config
from service.domain.errors import ConfigError
from service.domain.parallel import ONE_GPU
from service.domain.weights import stage_shapes
from tests.domain.configs.published import named

OCR, OCR2, TINY = "deepseek-ai/DeepSeek-OCR", "deepseek-ai/DeepSeek-OCR-2", "deepseek-ai/deepseek-vl2-tiny"
PHI, MOLMO, LAGUNA = "microsoft/Phi-3.5-vision-instruct", "allenai/Molmo2-8B", "poolside/Laguna-XS.2"
FLASH, PADDLE, OMNI = "zai-org/GLM-5.3-Flash", "PaddlePaddle/PaddleOCR-VL", "Qwen/Qwen3-Omni-30B-A3B-Instruct"
PHI4 = "microsoft/Phi-4-multimodal-instruct"
MINI, ERNIE = "openbmb/MiniCPM-V-4_5", "baidu/ERNIE-4.5-VL-28B-A3B-PT"
LIGHT, AYA, HUNYUAN = "deepseek-ai/DeepSeek-V2-Lite", "CohereLabs/aya-vision-8b", "tencent/HunyuanOCR"


def changed(model: str, path: str, value: Any) -> dict[str, Any]:  # noqa: ANN401  # a config holds anything
    """The model's config with another value at a path such as `text_config/hidden_size`."""
    config = deepcopy(named(model))
    *outer, name = path.split("/")
    inner = config
    for each in outer:
        inner = inner.setdefault(each, {})
    inner[name] = value
    return config


def seeing(architecture: Architecture) -> int:
    return sum(m.parameters for m in architecture.modules if m.kind in {ModuleKind.VISION, ModuleKind.AUDIO})


@pytest.mark.parametrize(
    "model, parameters",
    [
        ("moonshotai/Kimi-VL-A3B-Instruct", 447_545_840),
        ("rednote-hilab/dots.ocr", 1_262_091_264),
        (PHI, 303_507_456 + 22_034_432),
        (OCR, 401_372_160),
        ("LiquidAI/LFM2-VL-1.6B", 1_584_804_000 - 1_170_340_608),
        (OMNI, 31_719_205_488 - 30_532_646_912),
    ],
)
def test_what_sees_and_hears_is_counted_as_such(model: str, parameters: int) -> None:
    assert seeing(read_config(named(model))) == parameters


@pytest.mark.parametrize(
    "model, path, value",
    [
        (OCR, "vision_config/model_name", "resnet50"),
        (OCR, "projector_config/projector_type", "identity"),
        (OCR, "tile_tag", "1D"),
        (PHI, "img_processor/model_name", "openai/clip-vit-base-patch32"),
        (MOLMO, "text_config/qk_norm_type", "none"),
        (MOLMO, "adapter_config/vit_layers", [-28]),
        (FLASH, "text_config/indexer_types", ["full", "shared"] * 23),
        (FLASH, "text_config/index_topk_pattern", "FS"),
        (FLASH, "text_config/index_topk_freq", 4),
        (FLASH, "text_config/index_kpool", 1),
        (LAGUNA, "num_attention_heads_per_layer", [48, 60] * 20),
        (LAGUNA, "num_attention_heads_per_layer", [48]),
        ("LGAI-EXAONE/EXAONE-4.5-33B", "vision_config/num_heads", 30),
        ("transformers/internvl", "downsample_ratio", 0),
    ],
)
def test_what_no_rule_is_known_for_is_refused_by_its_path(model: str, path: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(changed(model, path, value))

    named_at = {"num_attention_heads_per_layer": {"num_key_value_heads", "num_attention_heads_per_layer"}}
    renamed = {"adapter_config/vit_layers": {"adapter_config/vision_feature_layer"}}
    assert caught.value.faults[0].pointer.removeprefix("/config/") in (named_at | renamed).get(path, {path})


@pytest.mark.parametrize("model", [OCR, TINY])
def test_a_deepseek_without_latents_keeps_the_keys_and_values_of_all_heads(model: str) -> None:
    (group,) = read_config(named(model)).caches

    assert group.spec == FullCache(10, 128, 128)


def test_a_deepseek_v2_says_by_a_flag_or_by_no_width_that_it_has_no_latents() -> None:
    config = named(LIGHT)

    latent, flagged = read_config(config), read_config({**config, "use_mla": False})
    unwide = read_config({**config, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0})

    assert [group.spec.kind for group in latent.caches] == [CacheKind.LATENT]
    assert [group.spec.kind for group in flagged.caches] == [CacheKind.FULL]
    assert (flagged.parameters, flagged.caches) == (unwide.parameters, unwide.caches)


def test_the_second_ocr_model_asks_questions_where_the_first_has_a_second_encoder() -> None:
    first, second = read_config(named(OCR)), read_config(named(OCR2))

    assert first.caches == second.caches
    assert not any("questions" in m.name for m in first.modules)
    assert sum(m.parameters for m in second.modules if "questions" in m.name) == (144 + 256) * 896


def test_a_released_molmo_reads_as_a_saved_one_whose_encoder_is_cut() -> None:
    released = named(MOLMO)
    vision = {k: v for k, v in released["vit_config"].items() if not k.startswith("image_")}
    saved = {k: v for k, v in released.items() if k != "vit_config"}
    saved["vision_config"] = {**vision, "num_hidden_layers": 25, "image_size": [378, 378], "patch_size": 14}
    saved["adapter_config"] = {**released["adapter_config"], "vision_feature_layer": [24, 18]}
    del saved["adapter_config"]["vit_layers"]

    assert read_config(saved).parameters == read_config(released).parameters


def test_olmo_s_molmo_norms_all_heads_at_once() -> None:
    each, all_at_once = (read_config(changed(MOLMO, "text_config/qk_norm_type", kind)) for kind in ("qwen3", "olmo"))

    assert all_at_once.parameters - each.parameters == 36 * ((32 + 8) * 128 - 2 * 128)


@pytest.mark.parametrize("model", [PADDLE, HUNYUAN])
def test_a_head_is_one_with_its_table_unless_both_configs_say_otherwise(model: str) -> None:
    config = named(model)
    hidden = {name: value for name, value in config.items() if name not in ("vision_config", "model_type")}
    text = config.get("text_config") or {k: v for k, v in hidden.items() if not isinstance(v, dict)}
    nested = {"model_type": config["model_type"], "vision_config": config["vision_config"]}

    apart, silent, tied = (
        read_config({**nested, "tie_word_embeddings": outer, "text_config": {**text, "tie_word_embeddings": inner}})
        for outer, inner in ((False, False), (False, True), (True, False))
    )

    assert silent.parameters == tied.parameters
    assert apart.parameters - tied.parameters == apart.vocabulary_size * apart.hidden_size


def test_a_thinker_that_is_saved_alone_is_read_as_inside_its_omni_model() -> None:
    whole = named(OMNI)

    alone = read_config(whole["thinker_config"])

    assert (alone.parameters, alone.caches) == (read_config(whole).parameters, read_config(whole).caches)
    assert any("talker" in note for note in read_config(whole).assumptions)


@pytest.mark.parametrize("model, kind", [("transformers/glm4v", "glm4v"), ("zai-org/GLM-4.5V", "glm4v_moe")])
def test_glm46v_is_either_of_its_elders_by_its_decoder(model: str, kind: str) -> None:
    config = named(model)
    text = {"model_type": f"{kind}_text", **config.get("text_config", {})}

    later, earlier = (read_config({**config, "text_config": text, "model_type": name}) for name in ("glm46v", kind))

    assert (later.modules, later.caches) == (earlier.modules, earlier.caches)


def test_an_adapter_without_a_width_is_as_wide_as_its_decoder() -> None:
    config = {name: value for name, value in named(AYA).items() if name != "alignment_intermediate_size"}
    joined, hidden = 4 * 1152, 4096

    narrower = read_config(named(AYA)).parameters - read_config(config).parameters

    assert narrower == (28672 - hidden) * (joined + 1) + (28672 - hidden) // 2 * hidden


def test_laguna_has_heads_by_layer_and_the_same_keys_in_all() -> None:
    by_heads = {group.query_heads: group for group in read_config(named(LAGUNA)).caches}

    assert (len(by_heads[48].layers), by_heads[48].spec.window_tokens) == (10, None)
    assert (len(by_heads[64].layers), by_heads[64].spec.window_tokens) == (30, 512)
    assert {group.spec.kv_heads for group in by_heads.values()} == {8}


def test_laguna_gates_each_head_or_each_of_its_elements() -> None:
    heads, elements = (read_config({**named(LAGUNA), "gating": kind}) for kind in ("per-head", "per-element"))

    assert elements.parameters - heads.parameters == (10 * 48 + 30 * 64) * 127 * 2048


def test_glm_5_3_keeps_a_key_for_each_pool_and_the_pool_that_is_not_full() -> None:
    architecture = read_config(named(FLASH))
    by_kind = {kind: [g for g in architecture.caches if g.spec.kind is kind] for kind in CacheKind}

    (index,), (latent,) = by_kind[CacheKind.INDEXER], by_kind[CacheKind.LATENT]

    assert index.layers == latent.layers == tuple(range(3, 45, 4))
    assert (index.spec.tokens_held(4095), latent.spec.key_width) == (4092, 512)
    assert sorted(len(group.layers) for group in by_kind[CacheKind.RECURRENT]) == [11, 34]


def test_muse_slides_in_three_layers_of_four_counted_from_the_last() -> None:
    text = {k: v for k, v in named("meta-models/Muse-Glimmer-30B")["text_config"].items() if k != "layer_types"}

    silent = read_config(text)

    assert next(g.layers for g in silent.caches if g.spec.kind is CacheKind.FULL) == tuple(range(3, 52, 4))


@pytest.mark.parametrize("version, decoder", [(2.6, "qwen2"), (4, "llama"), (4.0, "llama"), ("4.5", "qwen3")])
def test_a_minicpm_s_version_says_which_decoder_it_has(version: object, decoder: str) -> None:
    config = {**named(MINI), "version": version}
    text = {name: value for name, value in config.items() if name not in ("vision_config", "version")}

    seen, alone = read_config(config), read_config({**text, "model_type": decoder})

    assert seen.parameters - alone.parameters == 417_792_240 + 88_907_776


@pytest.mark.parametrize("version", [2.5, 2.0, "2.6b", None, True, [4.5]])
def test_a_minicpm_of_another_version_is_refused(version: object) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config({**named(MINI), "version": version})

    assert caught.value.faults[0].pointer == "/config/version"


def test_a_minicpm_may_drop_its_encoder_s_last_layer() -> None:
    whole, cut = (read_config({**named(MINI), "drop_vision_last_layer": flag}) for flag in (False, True))

    assert whole.parameters - cut.parameters == 4 * 1152 * 1153 + 2 * 1152 * 4304 + 4304 + 1152 + 4 * 1152


def test_ernies_experts_for_pictures_are_held_and_no_word_visits_them() -> None:
    architecture = read_config(named(ERNIE))
    seen = [m for m in architecture.modules if m.name.startswith("vision_experts")]
    (held,) = stage_shapes(architecture, ONE_GPU)

    assert sum(m.parameters for m in seen) == 27 * 64 * 3 * 2560 * 512
    assert (architecture.experts, architecture.expert_parameters) == ((64, 6), 3 * 2560 * 1536)
    assert held.expert_elements == 27 * 64 * 3 * 2560 * 1536
    assert set(seen) <= {part.module for part in held.idle}
    assert held.read_elements + held.expert_elements + held.idle_elements == architecture.parameters


@pytest.mark.parametrize(
    "name, value",
    [
        ("moe_num_experts", [64, 32]),
        ("moe_num_experts", [64, 64, 64]),
        ("moe_layer_start_index", [1, 2]),
        ("moe_layer_end_index", [26, 27]),
        ("moe_k", 65),
    ],
)
def test_ernies_experts_that_differ_by_kind_of_token_are_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config({**named(ERNIE), name: value})

    assert caught.value.faults[0].pointer == f"/config/{name}"


def test_a_saved_ernie_nests_its_decoder_and_reads_the_same() -> None:
    flat = named(ERNIE)
    text = {k: v for k, v in flat.items() if k not in ("vision_config", "model_type", "moe_num_experts")}
    saved = {"model_type": "ernie4_5_vl_moe", "vision_config": flat["vision_config"], "text_config": text}

    assert read_config(saved).modules == read_config(flat).modules


def test_the_first_got_is_the_later_one_without_a_word_on_its_encoder() -> None:
    later = named("stepfun-ai/GOT-OCR-2.0-hf")

    first = read_config({**later["text_config"], "model_type": "GOT"})

    assert first.parameters == read_config(later).parameters
    assert any(note.startswith("vision_config: the config is silent") for note in first.assumptions)


def test_phi_4_s_published_file_keeps_norms_of_pitches_and_tells_of_its_adapters() -> None:
    published, saved = (read_config(config) for config in (named(PHI4), named(f"{PHI4} (as the library saves it)")))

    assert published.parameters - saved.parameters == 2 * 80
    assert any("adapters" in note for note in published.assumptions)
    assert {m.kind for m in saved.modules} >= {ModuleKind.VISION, ModuleKind.AUDIO}


@pytest.mark.parametrize("reduction, pitches, convolutions", [(8, 10, 3), (4, 20, 2), (2, 40, 1)])
def test_phi_4_s_convolutions_halve_time_and_pitches(reduction: int, pitches: int, convolutions: int) -> None:
    config = changed(f"{PHI4} (as the library saves it)", "audio_config/time_reduction", reduction)
    modules = {m.name: m for m in read_config(config).modules}

    assert modules["audio_tower.subsampling.out"].columns == 1024 * pitches
    assert modules["audio_tower.subsampling.depthwise"].count == convolutions


def test_an_ocr_model_that_lets_generated_tokens_go_is_counted_by_its_prompt_and_says_so() -> None:
    unlimited, plain = read_config(named("baidu/Unlimited-OCR")), read_config(named(OCR))

    assert (unlimited.modules, unlimited.caches) == (plain.modules, plain.caches)
    assert any("let go" in note for note in unlimited.assumptions)
    assert not plain.assumptions
