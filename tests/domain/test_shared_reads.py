"""What a decode step reads of a shared prefix, and how often layers read one cache."""

import pytest

from service.domain.errors import ValidationError
from tests.domain.conftest import Ask

H200 = "h200-sxm-141gb"


@pytest.mark.parametrize(
    "model,context,prefix",
    [
        ("deepseek-v3.2", 65536, 60000),
        ("llama-4-scout-17b-16e-instruct", 10000, 9000),
        ("minimax-m3", 65536, 60000),
        ("deepseek-v4-flash", 65536, 60000),
        ("gemma-3-27b-it", 8192, 8000),
        ("llama-2-7b", 4096, 4000),
    ],
)
@pytest.mark.parametrize("batch", [1, 7])
def test_a_shared_prefix_never_adds_traffic(
    ask_traffic: Ask, model: str, context: int, prefix: int, batch: int
) -> None:
    question = {"model": model, "gpu": H200, "context_tokens": context, "batch_size": batch}
    alone, shared = ask_traffic(**question), ask_traffic(**question, shared_prefix_tokens=prefix)
    assert shared["cache_traffic_bytes"] <= alone["cache_traffic_bytes"]


def test_a_curve_below_the_prefix_is_refused(ask_traffic: Ask) -> None:
    with pytest.raises(ValidationError, match="shared_prefix_tokens"):
        ask_traffic(model="llama-2-7b", gpu=H200, shared_prefix_tokens=4000, curve_context_tokens=[1024, 4096])


def test_scores_are_of_the_layers_that_attend(ask_traffic: Ask) -> None:
    def heads(model: str) -> int:
        answer = ask_traffic(model=model, gpu=H200, prompt_tokens=1000, context_tokens=1000)
        return int(answer["prefill"]["scores_bytes_if_materialised"]) // (1000 * 1000 * 2)

    assert heads("deepseek-v3.2") == 128 * 61
    assert heads("gemma-3n-e4b-it") == 8 * 35


def test_a_latent_prefill_scores_expanded_heads(ask_traffic: Ask) -> None:
    question = {"model": "deepseek-v3", "gpu": H200}
    one, two = (ask_traffic(**question, prompt_tokens=n)["prefill"]["flops"] for n in (100_000, 200_000))
    square = (two - 2 * one) / (200_000**2 - 2 * 100_000**2)
    assert square == pytest.approx(61 * 128 * (192 + 128), rel=1e-3)


def test_one_gpu_reads_what_the_model_reads(ask_traffic: Ask) -> None:
    answer = ask_traffic(model="deepseek-v3", memory_bytes=10**13, batch_size=5, context_tokens=1024)
    assert answer["rank"]["weight_traffic_bytes"] == answer["weight_traffic_bytes"]
