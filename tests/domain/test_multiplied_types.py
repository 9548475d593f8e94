"""The peak of both answers is that of the type that an engine multiplies in, so that it can be asked again."""

from typing import Any

import pytest

from tests.domain.conftest import Ask, Shelf

WORKSTATION = "rtx-pro-6000-blackwell-ws"
NVFP4 = {"model": "nvidia-nemotron-3-nano-30b-a3b-nvfp4", "context_tokens": 4096, "batch_size": 64}
NAME = "peak_flops_per_second"
SHELF = Shelf()


@pytest.mark.parametrize(
    "engine,gpu,number",
    [
        ("vllm", WORKSTATION, "bf16"),
        ("vllm", "gb10-dgx-spark", "bf16"),
        ("vllm", "b200-sxm-180gb", "fp4"),
        ("sglang", WORKSTATION, "fp4"),
    ],
)
def test_the_peak_that_is_repeated_is_the_one_that_counts(
    ask_fit: Ask, ask_traffic: Ask, engine: str, gpu: str, number: str
) -> None:
    """A kernel of 16-bit activations goes before the native one on some cards with vLLM."""
    peak = SHELF.gpu(gpu).peaks[number]
    fitted, timed = (ask(**NVFP4, engine=engine, gpu=gpu) for ask in (ask_fit, ask_traffic))

    for answer in (fitted, timed):
        assert (answer["question"][NAME], answer["taken"][NAME]) == (peak, "catalog")
    assert fitted["roofline"]["ridge_batch"] == timed["ridge_batch"]
    assert any(f" of {peak / 1e12:,.0f} TFLOP/s" in line for line in timed["derivation"])


@pytest.mark.parametrize("gpu", [WORKSTATION, "gb10-dgx-spark", "rtx-5090", "b200-sxm-180gb"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_peak_asked_again_is_the_same_question(ask_fit: Ask, ask_traffic: Ask, engine: str, gpu: str) -> None:
    for ask in (ask_fit, ask_traffic):
        first = ask(**NVFP4, engine=engine, gpu=gpu)
        again = ask(**NVFP4, engine=engine, gpu=gpu, **{NAME: first["question"][NAME]})
        assert untaken(again) == untaken(first)


def test_a_peak_that_is_given_counts(ask_fit: Ask, ask_traffic: Ask) -> None:
    given = NVFP4 | {"engine": "vllm", "gpu": WORKSTATION, NAME: 1e15}
    fitted, timed = ask_fit(**given), ask_traffic(**given)

    assert fitted["question"][NAME] == timed["question"][NAME] == 1e15
    assert fitted["roofline"]["ridge_batch"] == timed["ridge_batch"]
    assert any(" of 1,000 TFLOP/s" in line for line in timed["derivation"])


def test_other_formats_have_the_peak_of_their_own_type(ask_fit: Ask) -> None:
    answer = ask_fit(model="llama-3.1-70b-instruct-fp8", engine="vllm", gpu=WORKSTATION, context_tokens=4096)

    assert answer["question"][NAME] == SHELF.gpu(WORKSTATION).peaks["fp8"]


def untaken(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without where each name of its question came from."""
    return {name: value for name, value in answer.items() if name != "taken"}
