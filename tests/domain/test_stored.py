"""The bytes of published checkpoints, from nothing but their configs, and those of GGUF files."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.architecture import Module, ModuleKind
from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import ConfigError, NotSupported, QuoteError
from service.domain.model import Model, from_config, from_facts
from service.domain.parallel import Layout
from service.domain.precision import NumberFormat, WeightFormat
from service.domain.stored import StoredFormat, weights_for
from service.domain.weights import rank_weights, whole_model
from tests.domain.conftest import Shelf, entry

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
}
LLAMA_8B = {
    **LLAMA,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 14336,
}
LLAMA_70B = {
    **LLAMA,
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "intermediate_size": 28672,
}
GROUP = {"num_bits": 8, "type": "float", "strategy": "channel"}
FP8_DYNAMIC: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": GROUP}},
    "ignore": ["lm_head"],
}
W4A16: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128}},
    },
    "ignore": ["lm_head"],
}
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": 128}
NVFP4: dict[str, Any] = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}
# What the files of these names hold: to the byte, or with what only the file can tell, within 1 %.
PUBLISHED: dict[str, tuple[dict[str, Any], dict[str, Any], int, float]] = {
    "fp8-dynamic": (LLAMA_8B, FP8_DYNAMIC, 9_083_953_152, 0),
    "awq": (LLAMA_70B, AWQ, 39_767_785_472, 0),
    "nvfp4": (LLAMA_70B, NVFP4, 42_709_045_632, 0),
    "gptq, whose zero biases only the file tells": (
        LLAMA_8B,
        {"quant_method": "gptq", "bits": 4, "group_size": 128},
        5_735_587_840,
        0.01,
    ),
    "w4a16, ordered by activation": (LLAMA_70B, W4A16, 39_525_311_232, 0.01),
}


def stored(shelf: Shelf, model: Model, name: str | None = None) -> WeightFormat:
    return weights_for(shelf.format(name or model.checkpoint_format), model, shelf)


def whole(shelf: Shelf, model: Model, name: str | None = None) -> int:
    return whole_model(model.architecture, stored(shelf, model, name)).bytes


def quantized(config: dict[str, Any], **quantization: Any) -> Model:  # noqa: ANN401  # whatever a config holds
    return from_config({**config, "quantization_config": quantization})


def of(shelf: Shelf, model: Model, name: str, layer: int | None = None) -> float:
    """Bits of an element of a module, in one layer or where it is outside them."""
    number = stored(shelf, model)
    module = next(m for m in model.architecture.modules if m.name == name and m.kind is not ModuleKind.VISION)
    size = number.held_bytes(module, module.rows, module.columns, (layer or 0,))
    return round(size * 8 / module.elements, 1)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_config_gives_the_bytes_of_the_published_file(shelf: Shelf, name: str) -> None:
    config, quantization, published, tolerance = PUBLISHED[name]

    assert abs(whole(shelf, quantized(config, **quantization)) - published) <= tolerance * published


@pytest.mark.parametrize("name", ["gpt-oss-20b", "gpt-oss-120b"])
def test_mxfp4_experts_come_to_the_bytes_of_the_file(shelf: Shelf, name: str) -> None:
    facts = entry(CatalogKind.MODEL, name).facts

    assert whole(shelf, from_config(facts["config"])) == facts["checkpoint"]["weight_bytes"]


def test_deepseek_v3_with_its_prediction_layer_is_as_long_as_its_files(shelf: Shelf) -> None:
    model = from_facts(entry(CatalogKind.MODEL, "deepseek-v3"))
    number = stored(shelf, model)
    exact = whole_model(model.architecture, number).bytes + predicted_bytes(model, number)
    # Router biases are kept as fp32 by the file, and are no parameters of the model code.
    exact += 4 * 256 * 58

    assert exact == 688_574_839_360


def predicted_bytes(model: Model, number: WeightFormat) -> int:
    """The prediction layer in the checkpoint's format but for what joins its inputs, table and head."""
    plain = ("eh_proj", "embed_tokens", "lm_head", "router")

    def size(module: Module) -> int:
        left = module.columns == 1 or module.name.endswith(plain)
        if module.name.endswith("router.bias"):
            return 4 * module.elements
        return 2 * module.elements if left else number.matrix_bytes(module.rows, module.columns, ModuleKind.MLP)

    return sum(m.count * size(m) for m in model.architecture.modules if m.kind is ModuleKind.PREDICTION)


@pytest.mark.parametrize("name", ["qwen3-30b-a3b-fp8", "qwen3-235b-a22b-fp8", "minimax-m2.5", "kimi-k2.6", "glm-5-fp8"])
def test_a_catalog_entry_comes_within_a_hundredth_of_its_estimate(shelf: Shelf, name: str) -> None:
    facts = entry(CatalogKind.MODEL, name).facts

    assert whole(shelf, from_facts(Entry(CatalogKind.MODEL, name, facts, 1))) == pytest.approx(
        facts["checkpoint"]["weight_bytes_estimate"], rel=0.01
    )


def test_a_list_names_modules_of_some_layers(shelf: Shelf) -> None:
    model = from_facts(entry(CatalogKind.MODEL, "llama-3.1-405b-instruct-fp8"))

    assert [of(shelf, model, "up_proj", layer) for layer in (0, 1, 124, 125)] == [16, 8, 8, 16]
    assert of(shelf, model, "q_proj", 60) == 16


def test_a_list_may_begin_where_a_wrapper_begins(shelf: Shelf) -> None:
    model = from_facts(entry(CatalogKind.MODEL, "kimi-k2.5-nvfp4"))

    assert (of(shelf, model, "q_b_proj", 3), of(shelf, model, "experts.up_proj", 3)) == (16, 4.5)


def test_an_expression_tells_dense_layers_from_experts(shelf: Shelf) -> None:
    model = from_facts(entry(CatalogKind.MODEL, "kimi-k2.6"))

    assert (of(shelf, model, "gate_proj", 0), of(shelf, model, "experts.gate_proj", 1)) == (16, 4.5)
    assert of(shelf, model, "shared_expert.gate_proj", 1) == 16


def test_groups_give_modules_formats_of_their_own_and_the_head_too(shelf: Shelf) -> None:
    model = from_config(entry(CatalogKind.MODEL, "qwen3.6-27b-nvfp4").facts["config"])

    assert (of(shelf, model, "q_proj", 3), of(shelf, model, "up_proj", 3), of(shelf, model, "lm_head")) == (8, 4.5, 4.5)


def test_experts_beside_a_dense_mlp_are_not_meant_by_its_name(shelf: Shelf) -> None:
    model = from_config(entry(CatalogKind.MODEL, "gemma-4-26b-a4b-nvfp4").facts["config"])

    assert (of(shelf, model, "experts.up_proj", 3), of(shelf, model, "up_proj", 3)) == (4.5, 16)


def test_the_catalog_may_know_better_than_the_config(shelf: Shelf) -> None:
    model = from_facts(entry(CatalogKind.MODEL, "deepseek-v4-flash"))

    assert of(shelf, model, "experts.up_proj", 5) == 4.2


def test_a_list_that_lacks_the_head_is_taken_at_its_word(shelf: Shelf) -> None:
    model = quantized(LLAMA_8B, **{**FP8_DYNAMIC, "ignore": ["model.layers.3.mlp"]})

    assert of(shelf, model, "lm_head") == 8
    assert [of(shelf, model, "down_proj", layer) for layer in (2, 3)] == [8, 16]


def test_lists_do_not_count_where_another_format_is_asked(shelf: Shelf) -> None:
    listed = quantized(LLAMA_8B, **{**FP8_DYNAMIC, "ignore": ["re:.*self_attn.*", "lm_head"]})

    assert whole(shelf, listed, "awq") == whole(shelf, quantized(LLAMA_8B, **AWQ))
    assert whole(shelf, listed) > whole(shelf, quantized(LLAMA_8B, **FP8_DYNAMIC))


@pytest.mark.parametrize("layout", [Layout(4), Layout(2, 2), Layout(1, 8)], ids=["tp 4", "tp 2 pp 2", "pp 8"])
def test_ranks_hold_the_whole_model_between_them(shelf: Shelf, layout: Layout) -> None:
    model = quantized(LLAMA_8B, **{**FP8_DYNAMIC, "ignore": ["re:.*layers\\.1?[05]\\.self_attn.*", "lm_head"]})
    ranks = rank_weights(model.architecture, stored(shelf, model), layout)

    assert sum(rank.bytes for rank in ranks) * layout.tensor == pytest.approx(whole(shelf, model), rel=0.001)


@pytest.mark.parametrize("expression", ["re:(?!lm_head).*", "re:(", "re:" + "a" * 2000])
def test_an_expression_that_is_not_known_is_refused_by_field(shelf: Shelf, expression: str) -> None:
    with pytest.raises(ConfigError) as caught:
        whole(shelf, quantized(LLAMA_8B, **{**FP8_DYNAMIC, "ignore": [expression]}))

    assert caught.value.faults[0].pointer == "/config/quantization_config/ignore"


def test_more_expressions_than_can_be_tried_are_refused_by_field(shelf: Shelf) -> None:
    expressions = [f"re:.*\\.{layer}\\.x{layer}" for layer in range(2000)]

    with pytest.raises(ConfigError):
        whole(shelf, quantized(LLAMA_70B, **{**FP8_DYNAMIC, "ignore": expressions}))


_names = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["*", "re:", "model.layers.*", "model.layers.99999999999.mlp", "lm_head", "re:.*", "layers.0*"]),
)


@settings(deadline=None)
@given(names=st.lists(_names, max_size=6))
def test_any_list_of_names_is_counted_or_refused(shelf: Shelf, names: list[str]) -> None:
    try:
        held = whole(shelf, quantized(LLAMA_8B, **{**FP8_DYNAMIC, "ignore": names}))
    except QuoteError:
        return

    assert 8_000_000_000 < held <= 16_060_522_496


def test_a_file_that_was_read_is_what_the_whole_model_holds(shelf: Shelf) -> None:
    facts = entry(CatalogKind.MODEL, "llama-3.1-8b-instruct").facts
    known = {**facts, "checkpoint": {**facts["checkpoint"], "weight_bytes": 16_060_556_288}}
    model = from_facts(Entry(CatalogKind.MODEL, "llama-3.1-8b-instruct", known, 1))

    assert whole(shelf, model) == 16_060_556_288
    assert whole(shelf, model, "fp8") == 9_083_953_152
    assert sum(r.bytes for r in rank_weights(model.architecture, stored(shelf, model), Layout(1, 4))) == pytest.approx(
        16_060_556_288, abs=4
    )


def test_a_q4_k_m_llama_has_the_published_bytes(shelf: Shelf) -> None:
    # The published sum leaves out the 64 rotary factors, 256 B.
    assert whole(shelf, from_config(LLAMA_8B), "q4_k_m") == 4_912_898_048


def test_a_q4_k_s_mixture_of_experts_has_the_published_bytes(shelf: Shelf) -> None:
    assert whole(shelf, from_facts(entry(CatalogKind.MODEL, "qwen3-30b-a3b")), "q4_k_s") == 17_450_039_296


def test_rows_that_blocks_do_not_divide_fall_back(shelf: Shelf) -> None:
    narrow = from_config({**LLAMA_8B, "hidden_size": 4096 + 32, "head_dim": 128, "tie_word_embeddings": True})
    number = stored(shelf, narrow, "q4_k_s")
    rows = {m.name: number.of(m).name for m in narrow.architecture.modules}

    assert (rows["gate_proj"], rows["o_proj"], rows["embed_tokens"]) == ("q5_0", "q4_k", "q8_0")


def test_rows_that_no_block_divides_stay_in_16_bits(shelf: Shelf) -> None:
    odd = from_config({**LLAMA_8B, "hidden_size": 4096 + 16, "head_dim": 128})
    number = stored(shelf, odd, "iq4_xs")

    assert {number.of(m).name for m in odd.architecture.modules if m.name == "gate_proj"} == {"fp16"}


def test_a_file_type_is_made_once_for_a_model(shelf: Shelf) -> None:
    model = from_config(LLAMA_8B)

    assert stored(shelf, model, "q4_k_m") is stored(shelf, model, "q4_k_m")


def test_modules_with_the_same_layers_in_the_same_format_share_what_is_kept_of_them(shelf: Shelf) -> None:
    model, like_it = from_config(LLAMA_8B), from_config({**LLAMA_8B, "intermediate_size": 8192})
    numbers = [stored(shelf, one, "q4_k_m") for one in (model, like_it)]
    parts = [
        part for number in numbers if isinstance(number, StoredFormat) for own in number.parts.values() for part in own
    ]

    assert len(set(map(id, parts))) == len({(part.layers, part.number) for part in parts}) < len(parts) / 2


@pytest.mark.parametrize("name", ["q4_k_m", "q2_k", "iq4_xs", "mxfp4_moe", "q8_0"])
@pytest.mark.parametrize("model", ["falcon-7b", "gemma-3-27b-it", "deepseek-v2-lite", "jamba-v0.1", "gpt-oss-20b"])
def test_every_family_has_a_file_of_every_type(shelf: Shelf, model: str, name: str) -> None:
    read = from_facts(entry(CatalogKind.MODEL, model))
    bits = whole(shelf, read, name) * 8 / read.architecture.parameters

    assert 2 < bits < 10


def test_a_name_in_every_layer_takes_in_what_is_listed_by_layer(shelf: Shelf) -> None:
    everywhere = quantized(LLAMA_8B, **{**FP8_DYNAMIC, "ignore": ["mlp.down_proj", "lm_head"]})
    both = quantized(
        LLAMA_8B,
        **{**FP8_DYNAMIC, "ignore": ["model.layers.*.mlp.down_proj", "model.layers.3.mlp.down_proj", "lm_head"]},
    )

    assert {of(shelf, both, "down_proj", layer) for layer in (0, 3, 31)} == {16}
    assert whole(shelf, both) == whole(shelf, everywhere)


@pytest.mark.parametrize("name", ["fp8_ds_mla"])
def test_a_type_of_caches_alone_is_none_that_weights_are_stored_in(shelf: Shelf, name: str) -> None:
    with pytest.raises(NotSupported, match=f"{name} is not a format that weights") as caught:
        whole(shelf, from_config(LLAMA_8B), name)

    assert caught.value.faults[0].pointer == "/weight_dtype"


class Falling(Shelf):
    """The shelf, with rows of `q4_k` that do not divide falling back to what a test says."""

    def __init__(self, fallback: str) -> None:
        self._fallback = fallback

    def format(self, name: str, pointer: str = "") -> NumberFormat:  # type: ignore[override]  # not kept
        found = super().format(name, pointer)
        weight = found.weight
        return replace(found, weight=replace(weight, fallback=self._fallback)) if name == "q4_k" and weight else found


def test_rows_that_do_not_divide_fall_back_as_the_catalog_says_and_not_for_ever(shelf: Shelf) -> None:
    model = from_config({**LLAMA_8B, "hidden_size": 4000, "num_attention_heads": 40, "num_key_value_heads": 40})

    usual, circle = whole(shelf, model, "q4_k_m"), whole(Falling("q4_k"), replace(model, memo={}), "q4_k_m")

    assert circle < usual
    with pytest.raises(NotSupported, match="fp8_ds_mla is not a format that weights"):
        whole(Falling("fp8_ds_mla"), replace(model, memo={}), "q4_k_m")
