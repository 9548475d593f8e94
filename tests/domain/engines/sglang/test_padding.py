"""Experts as SGLang's kernels keep them."""

from typing import Any

import pytest

from tests.domain.agreement import ask, parts

GIB = 1 << 30
OSS = {"model": "gpt-oss-120b", "engine": "sglang", "context_tokens": 8192}
TABLES = 131_072 * 64 * 4
EXPERTS = 36 * 128 * 3 * 2880 * 2880 * 17 / 32


def weights(**changed: Any) -> int:  # noqa: ANN401
    answer = ask(OSS | changed)
    assert answer is not None
    return parts(answer)["weights"]


def test_a_card_without_a_kernel_of_its_own_keeps_the_file() -> None:
    """2,880 is a multiple of 64: on one rank nothing is added but rotary tables."""
    loaded = weights(gpu="a100-sxm-80gb", engine_version="0.5.9") - TABLES
    assert loaded / GIB == pytest.approx(60.77, abs=0.01)


def test_hopper_keeps_values_in_a_wider_layout() -> None:
    plain = weights(gpu="a100-sxm-80gb", engine_version="0.5.9")
    wide = weights(gpu="h100-sxm-80gb", engine_version="0.5.9")

    assert wide - plain == pytest.approx(0.0627 * EXPERTS, rel=1e-3)


@pytest.mark.parametrize(
    "release,gpu,tensor,inner,outer",
    [
        ("0.5.9", "b200-sxm-180gb", 1, 3072, 3072),
        ("0.5.9", "b200-sxm-180gb", 4, 4 * 768, 3072),
        ("0.5.23", "b200-sxm-180gb", 1, 2944, 2944),
        ("0.5.23", "b200-sxm-180gb", 8, 8 * 384, 2944),
        ("0.5.23", "rtx-pro-6000-blackwell-ws", 2, 2 * 1536, 2944),
        ("0.5.9", "rtx-pro-6000-blackwell-ws", 2, 2 * 1472, 2880),
    ],
)
def test_blackwell_rounds_both_sides_up(release: str, gpu: str, tensor: int, inner: int, outer: int) -> None:
    plain: float = weights(gpu="a100-sxm-80gb", engine_version="0.5.9", tensor_parallel=tensor)
    if tensor > 1:  # on fewer rows a rank, 64 is what is rounded up to there too
        plain -= (-(-2880 // tensor // 64) * 64 * tensor / 2880 - 1) * EXPERTS / tensor
    padded = weights(gpu=gpu, engine_version=release, tensor_parallel=tensor)

    assert padded - plain == pytest.approx((inner * outer / 2880**2 - 1) * EXPERTS / tensor, rel=2e-3, abs=2**20)


def test_whole_experts_are_padded_by_their_own_sides() -> None:
    question = {"gpu": "b200-sxm-180gb", "engine_version": "0.5.23", "tensor_parallel": 8}
    apart, whole = weights(**question), weights(**question, expert_parallel=True)

    assert apart - whole == pytest.approx((8 * 384 - 2944) * 2944 / 2880**2 * EXPERTS / 8, rel=2e-2)


def test_a_size_that_is_given_is_not_padded() -> None:
    question = {"gpu": "b200-sxm-180gb", "engine_version": "0.5.9"}
    assert weights(**question, weight_bytes=65 * 10**9) == 65 * 10**9
    assert weights(**question, weight_dtype="bf16") == 2 * 116_829_156_672 + TABLES
