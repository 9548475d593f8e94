"""Steps with speculative decoding: what the drafter reads, what is verified, and what a step yields."""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from service.domain.catalog import CatalogKind
from service.domain.engines.ranks.drafts import draft_rule
from service.domain.engines.vllm.drafts import NO_LAYERS, ONE_LAYER, OWN_LAYERS
from service.domain.errors import ValidationError
from service.domain.question import resolve
from service.domain.traffic_quote import traffic
from tests.domain.conftest import Ask, Shelf, entry

if TYPE_CHECKING:
    from service.domain.engines import Engine

LLAMA = {
    "model": "llama-3.1-8b-instruct",
    "gpu": "h100-sxm-80gb",
    "engine": "vllm",
    "context_tokens": 4096,
    "batch_size": 8,
}
EAGLE = {**LLAMA, "speculative_method": "eagle3", "speculative_tokens": 3}
DEEPSEEK = {
    "model": "deepseek-v3",
    "gpu": "h200-sxm-141gb",
    "engine": "vllm",
    "context_tokens": 4096,
    "batch_size": 1,
    "tensor_parallel": 8,
    "speculative_method": "mtp",
}
LAYER = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 2 * 4096
"""Elements of a decoder layer of Llama-3.1-8B."""


def test_a_drafter_reads_its_layer_its_head_and_its_cache_once_a_pass(ask_traffic: Ask) -> None:
    plain, drafted = ask_traffic(**LLAMA), ask_traffic(**EAGLE)
    pass_bytes = 2 * (LAYER + 2 * 4096**2 + 32000 * 4096)
    said = drafted["speculation"]
    assert said["weight_traffic_bytes"] == 3 * pass_bytes
    assert said["cache_traffic_bytes"] == 3 * 8 * 4096 * 4096
    assert drafted["weight_traffic_bytes"] == plain["weight_traffic_bytes"] + 3 * pass_bytes + 3 * 8 * 4096 * 2
    assert drafted["cache_traffic_bytes"] == plain["cache_traffic_bytes"] + said["cache_traffic_bytes"]
    assert sum(row["bytes"] for row in drafted["by_kind"]) == drafted["cache_traffic_bytes"]


def test_tokens_of_a_step_are_those_of_a_chain_of_guesses(ask_traffic: Ask) -> None:
    said = ask_traffic(**EAGLE)["speculation"]
    assert (said["draft_passes"], said["verified_tokens"]) == (3, 4)
    assert said["tokens_per_step"] == pytest.approx(1 + 0.7 + 0.7**2 + 0.7**3)
    assert said["tokens_per_step_interval"] == pytest.approx(
        [1 + 0.45 + 0.45**2 + 0.45**3, 1 + 0.85 + 0.85**2 + 0.85**3]
    )


def test_an_output_token_takes_its_part_of_a_step(ask_traffic: Ask) -> None:
    answer = ask_traffic(**EAGLE, data_parallel=2)
    seconds, tokens = answer["step"]["seconds"], answer["speculation"]["tokens_per_step"]
    assert answer["time_per_output_token_seconds"] == pytest.approx(seconds / tokens)
    assert answer["tokens_per_second_per_sequence"] == pytest.approx(tokens / seconds)
    assert answer["tokens_per_second"] == pytest.approx(2 * 8 * tokens / seconds)
    low, high = answer["speculation"]["time_per_output_token_interval_seconds"]
    least, most = answer["step"]["interval_seconds"]
    few, many = answer["speculation"]["tokens_per_step_interval"]
    assert (low, high) == (pytest.approx(least / many), pytest.approx(most / few))


def test_what_the_text_alone_decides_is_not_told(ask_traffic: Ask) -> None:
    answer = ask_traffic(**LLAMA, speculative_method="ngram", speculative_tokens=4, curve_batch_sizes=[1])
    nulls = ("tokens_per_second", "tokens_per_second_per_sequence", "time_per_output_token_seconds")
    assert all(answer[name] is None for name in nulls)
    assert answer["curve"][0]["tokens_per_second"] is None
    said = answer["speculation"]
    assert (said["draft_passes"], said["weight_traffic_bytes"], said["draft_seconds"]) == (0, 0, 0)
    assert (said["tokens_per_step"], said["tokens_per_step_interval"]) == (None, [1, 5])
    assert answer["step"]["seconds"] > 0
    assert any("depends on the text alone" in warning for warning in answer["warnings"])


@pytest.mark.parametrize("method", ["ngram", "eagle3", "mtp"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_a_step_without_a_guess_is_no_drafting(ask_fit: Ask, ask_traffic: Ask, engine: str, method: str) -> None:
    asked = {**LLAMA, "model": "deepseek-v3", "engine": engine, "speculative_method": method, "speculative_tokens": 0}
    for ask in (ask_fit, ask_traffic):
        with pytest.raises(ValidationError, match="guesses 0 tokens") as refusal:
            ask(**asked)
        assert [fault.pointer for fault in refusal.value.faults] == ["/speculative_tokens"]


def test_a_method_is_known_as_the_engine_writes_it(ask_traffic: Ask) -> None:
    found = ask_traffic(**{**EAGLE, "engine": "sglang", "speculative_method": "EAGLE3"})

    assert found["question"]["speculative_method"] == "eagle3"
    assert found == ask_traffic(**{**EAGLE, "engine": "sglang"})


def test_more_guesses_take_longer_steps_and_verifying_is_cheap(ask_traffic: Ask) -> None:
    plain = ask_traffic(**LLAMA)["step"]["seconds"]
    steps = [ask_traffic(**EAGLE | {"speculative_tokens": n})["step"]["seconds"] for n in (1, 2, 4, 8)]
    assert plain < steps[0] < steps[1] < steps[2] < steps[3] < 2 * plain


def test_a_large_batch_pays_for_the_tokens_that_it_verifies(ask_traffic: Ask) -> None:
    question = {"batch_size": 256, "context_tokens": 128}
    plain, drafted = (ask_traffic(**asked | question)["step"] for asked in (LLAMA, EAGLE))
    assert drafted["compute_seconds"] > 4 * plain["compute_seconds"]
    assert drafted["bound"] == "compute"


def test_the_interval_is_wider_by_the_drafters_part(ask_traffic: Ask) -> None:
    answer = ask_traffic(**EAGLE)
    low, high = answer["step"]["interval_seconds"]
    seconds, passes = answer["step"]["seconds"], answer["speculation"]["draft_seconds"]
    assert seconds - low == pytest.approx(0.25 * (seconds - passes) + 0.9 * passes)
    assert high > seconds + (seconds - low)
    assert low > 0


def test_own_layers_guess_one_token_each_where_nobody_says(ask_traffic: Ask) -> None:
    said = ask_traffic(**DEEPSEEK)["speculation"]
    assert (said["draft_passes"], said["verified_tokens"]) == (1, 2)
    assert said["tokens_per_step"] == pytest.approx(1.8)


@pytest.mark.parametrize("model", ["deepseek-v3", "deepseek-v3.1"])
def test_of_a_prediction_layers_experts_those_touched_are_read(ask_traffic: Ask, model: str) -> None:
    """One layer of 256 experts, of which a sequence visits 8, stored as the model's; only one config describes it."""
    question = DEEPSEEK | {"model": model}
    one, many = (ask_traffic(**question | {"batch_size": n})["speculation"]["weight_traffic_bytes"] for n in (1, 4096))
    assert many - one == pytest.approx(248 * 3 * 2048 * 7168, rel=0.01)


def test_a_prediction_layer_that_the_config_does_not_describe_is_as_an_average_one(ask_traffic: Ask) -> None:
    """Moonlight: of 27 layers 26 have experts, of which a lone sequence visits 6 of 64."""
    hidden, vocabulary, layers = 2048, 163_840, 27
    attention = hidden * 16 * 192 + hidden * 576 + 512 + 512 * 16 * 256 + 16 * 128 * hidden
    always = layers * (attention + 2 * hidden) + 3 * hidden * 11_264 + 26 * (3 * hidden * 2816 + 64 * hidden + 64)
    visited = 6 * 3 * hidden * 1408
    asked = {**LLAMA, "model": "moonlight-16b-a3b-instruct", "batch_size": 1, "speculative_method": "mtp"}

    said = ask_traffic(**asked)["speculation"]

    assert said["draft_passes"] == 1
    expected = 2 * (always / layers + 2 * hidden**2 + visited + vocabulary * hidden)
    assert said["weight_traffic_bytes"] == pytest.approx(expected, rel=1e-3)


def test_a_prediction_layer_of_a_model_without_experts_is_as_an_average_one(ask_traffic: Ask, shelf: Shelf) -> None:
    architecture = shelf.model("nvidia-nemotron-nano-9b-v2").architecture
    hidden, head = architecture.hidden_size, architecture.vocabulary_size * architecture.hidden_size
    asked = {**LLAMA, "model": "nvidia-nemotron-nano-9b-v2", "batch_size": 1, "speculative_method": "mtp"}

    said = ask_traffic(**asked)["speculation"]

    layer = (architecture.parameters - 2 * head - hidden) / architecture.layers
    assert said["weight_traffic_bytes"] == pytest.approx(2 * (layer + 2 * hidden**2 + head), rel=1e-6)


def test_sglang_counts_the_token_that_is_no_guess(ask_traffic: Ask) -> None:
    said = ask_traffic(**EAGLE | {"engine": "sglang", "speculative_tokens": 4})["speculation"]
    assert (said["draft_passes"], said["verified_tokens"]) == (3, 4)


def test_how_many_guesses_has_to_be_said(ask_traffic: Ask) -> None:
    with pytest.raises(ValidationError) as refused:
        ask_traffic(**LLAMA, speculative_method="eagle3")
    assert refused.value.faults[0].pointer == "/speculative_tokens"


def test_ranks_share_a_drafter_and_the_last_stage_has_it(ask_traffic: Ask) -> None:
    question = EAGLE | {"tensor_parallel": 2}
    one, two = ask_traffic(**question), ask_traffic(**{n: v for n, v in question.items() if "spec" not in n})
    said = one["speculation"]
    extra = one["rank"]["weight_traffic_bytes"] - two["rank"]["weight_traffic_bytes"]
    assert extra == pytest.approx(said["weight_traffic_bytes"] / 2 + 3 * 8 * 4096 * 2)
    assert one["rank"]["cache_traffic_bytes"] - two["rank"]["cache_traffic_bytes"] == said["cache_traffic_bytes"] / 2


def test_shares_add_up_and_the_curve_agrees(ask_traffic: Ask) -> None:
    answer = ask_traffic(**EAGLE | {"tensor_parallel": 4}, curve_batch_sizes=[8])
    assert sum(answer["step"]["shares"].values()) == pytest.approx(1)
    row = answer["curve"][0]
    assert row["step_seconds"] == answer["step"]["seconds"]
    assert row["tokens_per_second"] == answer["tokens_per_second"]
    assert row["total_traffic_bytes"] == answer["total_traffic_bytes"]


def test_the_crossover_counts_the_drafter(ask_traffic: Ask) -> None:
    first = ask_traffic(**EAGLE)["crossover_batch"]
    at, before = (ask_traffic(**EAGLE | {"batch_size": n}) for n in (first, first - 1))
    assert at["cache_share"] > 0.5 >= before["cache_share"]


def test_the_derivation_names_the_passes(ask_traffic: Ask) -> None:
    lines = ask_traffic(**EAGLE, tensor_parallel=2)["derivation"]
    assert "fixed: 32 layers x 46.0 us + 8 sequences x 26.0 us + 3 passes x 346.0 us = 2.718 ms" in lines
    assert any(line.startswith("3 passes of the drafter: ") for line in lines)
    assert any("the drafter's passes" in line for line in lines)


def test_prompts_are_read_without_drafts(ask_traffic: Ask) -> None:
    plain, drafted = (ask_traffic(**asked, prompt_tokens=2048)["prefill"] for asked in (LLAMA, EAGLE))
    assert drafted["seconds"] == plain["seconds"]


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
def test_every_method_that_can_be_quoted_can_be_timed(name: str, shelf: Shelf) -> None:
    facts = entry(CatalogKind.ENGINE, name).facts["drafts"]
    quoted = sorted(OWN_LAYERS | ONE_LAYER | NO_LAYERS) if name == "vllm" else draft_rule(facts).known
    known = shelf.engine(name).step.speculation
    assert known is not None
    assert sorted(known.methods) == quoted
    for method in known.methods.values():
        assert method.accepted is None or method.accepted.low < method.accepted.middle < method.accepted.high < 1


class OlderShelf(Shelf):
    """A catalog from before anything was known of drafts."""

    @cache  # noqa: B019  # one shelf lives as long as the tests
    def engine(self, name: str) -> "Engine":
        engine: Any = super().engine(name)
        older: Engine = replace(engine, step=replace(engine.step, speculation=None))
        return older


def test_an_older_catalog_says_that_drafts_are_left_out() -> None:
    shelf = OlderShelf()
    answer = traffic(resolve(EAGLE, shelf), shelf)
    assert answer["speculation"] is None
    assert any("without drafts" in warning for warning in answer["warnings"])
    assert answer["step"] == traffic(resolve(LLAMA, shelf), shelf)["step"]
