"""Drafters in the target's own process: the layers that they add."""

import pytest

from service.domain.engines.vllm.drafts import drafted_caches, drafted_layers
from tests.domain.engines.vllm.conftest import GIB, Hold, SettingOf

ASKED = {"kv_cache_bytes": 10 * GIB, "memory_bytes": 10**13, "context_tokens": 32768, "kv_dtype": "bf16"}


@pytest.mark.parametrize(
    "model, method, layers",
    [
        ("llama-3.1-8b-instruct", "ngram", 0),
        ("llama-3.1-8b-instruct", "eagle3", 1),
        ("deepseek-v3", "deepseek_mtp", 1),
        ("qwen3.5-27b", "mtp", 1),
    ],
)
def test_a_method_adds_its_layers(setting_of: SettingOf, model: str, method: str, layers: int) -> None:
    setting = setting_of(model=model, speculative_method=method, speculative_tokens=1, **ASKED)
    assert drafted_layers(setting) == layers


def test_a_drafted_layer_keeps_whole_sequences_however_many_tokens_it_drafts(setting_of: SettingOf) -> None:
    setting = setting_of(model="gpt-oss-20b", speculative_method="eagle3", speculative_tokens=4, **ASKED)
    (owners,) = drafted_caches(setting)
    assert owners.layers == (24,)
    assert owners.spec.window_tokens is None


def test_one_more_layer_of_attention_is_paid_in_every_block(quote: Hold) -> None:
    """Source: logs of Qwen3.6-27B with 17 attention layers for 16."""
    alone = quote(model="deepseek-v3", **ASKED)
    drafting = quote(model="deepseek-v3", speculative_method="mtp", speculative_tokens=1, **ASKED)
    assert drafting.rank.block_bytes * 61 == alone.rank.block_bytes * 62


def test_prediction_layers_are_loaded_where_they_draft(quote: Hold) -> None:
    alone, drafting = (
        quote(model="deepseek-v3", gpu="h200-sxm-141gb", tensor_parallel=8, **asked)
        for asked in ({}, {"speculative_method": "mtp", "speculative_tokens": 1})
    )
    assert 1 < (drafting.rank.weight_bytes - alone.rank.weight_bytes) / GIB < 2.5


def test_a_drafted_layer_stands_on_the_last_stage(quote: Hold) -> None:
    asked = {"model": "llama-3.1-8b-instruct", "pipeline_parallel": 2, **ASKED}
    alone, drafting = quote(**asked), quote(**asked, speculative_method="eagle", speculative_tokens=1)
    more = [d - a for d, a in zip(drafting.plan.stage_bytes, alone.plan.stage_bytes, strict=True)]
    assert more == [0, 16 * 4096]
