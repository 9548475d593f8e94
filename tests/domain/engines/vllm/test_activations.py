"""The profiled pass in closed form."""

from typing import Any

import pytest

from service.domain.engines.vllm import VllmEngine
from service.domain.engines.vllm.activations import element_bytes, peak_of
from service.domain.engines.vllm.setting import Batch
from service.domain.errors import NotSupported
from tests.domain.engines.vllm.conftest import GIB, Hold, SettingOf, gib

DENSE = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb"}


def test_a_dense_pass_holds_three_hidden_states_and_its_widest_block(setting_of: SettingOf, engine: VllmEngine) -> None:
    peak = peak_of(
        setting_of(**DENSE), engine.release("0.19.1").cores["v1"], Batch(2048, 256, 1, 256), stage=0, last=True
    )
    assert peak.forward == 2 * 2048 * (3 * 4096 + 3 * 14336)


def test_thirty_two_bits_double_a_pass(setting_of: SettingOf) -> None:
    assert element_bytes(setting_of(**DENSE)) * 2 == element_bytes(setting_of(**DENSE, weight_dtype="fp32")) == 4


def test_an_expert_pass_holds_a_row_for_each_token_and_expert_it_visits(quote: Hold) -> None:
    held = quote(model="mixtral-8x7b-instruct-v0.1", gpu="h200-sxm-141gb", engine_version="0.19.1")
    buffers = 2 * 8192 * 2 * (2 * 14336 + 14336)
    activations = next(p.span.middle for p in held.parts if p.name == "activations")
    assert activations == pytest.approx(buffers, rel=0.2)
    assert activations > buffers


def test_kernels_that_align_experts_hold_more_rows(setting_of: SettingOf, engine: VllmEngine) -> None:
    rules, batch = engine.release("0.19.1").cores["v1"], Batch(2048, 256, 1, 256)
    asked = {"model": "qwen3-235b-a22b-fp8", "tensor_parallel": 8, "context_tokens": 8192}
    wide, older = (
        peak_of(setting_of(gpu=gpu, **asked), rules, batch, stage=0, last=True)
        for gpu in ("h200-sxm-141gb", "a100-sxm-80gb")
    )
    assert wide.kept - older.kept > 2 * 128 * 127 * 4096


def test_experts_of_four_bits_keep_no_buffers(setting_of: SettingOf, engine: VllmEngine) -> None:
    rules, batch = engine.release("0.19.1").cores["v1"], Batch(8192, 256, 1, 256)
    peak = peak_of(setting_of(model="gpt-oss-20b", gpu="h100-sxm-80gb"), rules, batch, stage=0, last=True)
    assert peak.kept == 32 << 20


def test_latent_attention_expands_earlier_chunks(quote: Hold) -> None:
    held = quote(model="deepseek-v3", gpu="h200-sxm-141gb", tensor_parallel=8, context_tokens=32768)
    expanded = 2 * 65536 * 128 // 8 * (128 + 128)
    assert next(p.span.middle for p in held.parts if p.name == "activations") > expanded > 0.4 * GIB


def test_later_stages_keep_what_they_are_sent(setting_of: SettingOf, engine: VllmEngine) -> None:
    rules, batch = engine.release("0.19.1").cores["v1"], Batch(2048, 256, 1, 256)
    asked = setting_of(**DENSE, pipeline_parallel=2)
    first, later = (peak_of(asked, rules, batch, stage=stage, last=False) for stage in (0, 1))
    assert later.kept - first.kept == 2 * 2 * 2048 * 4096


def test_kernels_that_order_rows_by_expert_hold_them_three_times(quote: Hold) -> None:
    """Source: 1.79 GiB less from 4,096 to 16,384 tokens, Qwen3.6-35B-A3B in NVFP4 on an RTX 5090 with 0.20.0."""
    asked: dict[str, Any] = {"model": "qwen3.6-35b-a3b-nvfp4", "gpu": "rtx-5090", "engine_version": "0.20.0"}
    asked |= {"max_sequences_limit": 4}
    sizes = {
        (backend, tokens): gib(quote(**asked, moe_backend=backend, max_batched_tokens=tokens), "activations")
        for backend in ("cutlass", "marlin")
        for tokens in (4096, 16384)
    }
    assert sizes["cutlass", 16384] - sizes["cutlass", 4096] == pytest.approx(1.79, rel=0.05)
    assert sizes["marlin", 16384] < sizes["cutlass", 16384]


def test_kernels_of_experts_change_no_other_format(quote: Hold) -> None:
    asked = {"model": "qwen3-30b-a3b", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0"}
    assert gib(quote(**asked, moe_backend="FlashInfer-CUTLASS"), "activations") == gib(quote(**asked), "activations")


def test_kernels_of_experts_that_nobody_knows_are_refused(quote: Hold) -> None:
    with pytest.raises(NotSupported, match="these are"):
        quote(model="qwen3-30b-a3b", gpu="h100-sxm-80gb", moe_backend="cutlas")


def test_a_backend_that_is_asked_keeps_its_own_workspace_in_the_older_core(quote: Hold) -> None:
    """394 MiB is the size of the buffer in attention/backends/flashinfer.py of vLLM 0.7.3."""
    asked = {**DENSE, "engine_version": "0.7.3"}
    own, other = (gib(quote(**asked, attention_backend=name), "activations") for name in ("FLASHINFER", "flash_attn"))

    assert own - other == pytest.approx(394 / 1024)
    assert gib(quote(**asked), "activations") == other


TABLE = 151936 * 5120 * 2


def test_a_first_start_holds_the_table_of_words_once_more(setting_of: SettingOf, engine: VllmEngine) -> None:
    batch, asked = Batch(2048, 256, 1, 256), {"model": "qwen3-14b", "gpu": "l40s"}

    def compiling(release: str = "0.28.0", stage: int = 0, **more: Any) -> int:  # noqa: ANN401  # as questions are
        rules = engine.release(release).cores["v1"]
        return peak_of(setting_of(**asked | more), rules, batch, stage=stage, last=True).compiling

    words = 2 * 2 * 2048 * 5120
    assert compiling() == compiling("0.11.1") == compiling(weight_dtype="awq") == TABLE + words
    assert compiling(tensor_parallel=2) == TABLE // 2 + words
    assert compiling(weight_dtype="fp32") == 2 * (TABLE + words)
    assert compiling("0.11.0") == compiling(stage=1) == compiling(enforce_eager=True) == 0
    assert compiling(weight_dtype="q8_0") == 0


def test_models_of_pictures_embed_words_outside_what_is_compiled(setting_of: SettingOf, engine: VllmEngine) -> None:
    rules, batch = engine.release("0.25.1").cores["v1"], Batch(2048, 256, 1, 256)
    asked = {"model": "gemma-4-e4b-it", "gpu": "l40s"}
    seeing, blind = (
        peak_of(setting_of(**asked, **more), rules, batch, stage=0, last=True).compiling
        for more in ({}, {"encoder_budget_tokens": 0})
    )
    assert seeing == 0
    assert blind > 262144 * 2560 * 2


@pytest.mark.parametrize(
    "asked, cold, warm",
    [
        ({"model": "qwen2.5-7b-instruct", "gpu": "rtx-3090", "engine_version": "0.19.0"}, 5.82, 6.28),
        ({"model": "qwen3-14b", "weight_dtype": "awq", "gpu": "l4", "engine_version": "0.28.0"}, 9.10, 10.33),
    ],
)
def test_the_interval_holds_starts_with_and_without_compiled_code(
    quote: Hold, asked: dict[str, Any], cold: float, warm: float
) -> None:
    """Sources: two starts of one machine; the first and the second of two replicas of a blog on 0.28.0."""
    held = quote(**asked, context_tokens=4096)
    size = held.rank.block_bytes
    assert held.blocks * size / GIB == pytest.approx(cold, rel=0.015)
    assert held.high_blocks * size / GIB > warm > cold
