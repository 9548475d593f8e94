"""Compressed attention of DeepSeek-V4: its pages, how releases lay them out, what they print, what nobody described."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from service.domain.catalog import CatalogKind, Entry
from service.domain.engines.vllm import VllmEngine, from_facts, hold
from service.domain.engines.vllm.activations import second_runner
from service.domain.engines.vllm.batch import batch_of
from service.domain.engines.vllm.compressed import PackedPlan, packed, pages_of
from service.domain.engines.vllm.compressed_memory import added
from service.domain.engines.vllm.shapes import widths_of
from service.domain.errors import Fault, NotSupported, QuoteError, ValidationError
from tests.domain.conftest import entry
from tests.domain.engines.vllm.conftest import GIB, Hold, SettingOf, cases, gib

FLASH: dict[str, Any] = {
    "model": "deepseek-v4-flash",
    "gpu": "b300-sxm-288gb",
    "tensor_parallel": 8,
    "kv_dtype": "fp8",
    "context_tokens": 32768,
}
# One block of a layer, as get_kv_cache_spec of sparse_swa.py, attention.py and compressor.py of models/deepseek_v4 in
# 0.33.0 say, each rounded up to 576 bytes: 64 rows of 584, 2 of them, 64 keys of 132, 4 and 8 rows of 32 bits.
ROWS, FEW_ROWS, KEYS, STATES, KEY_STATES = 37440, 1728, 8640, 32832, 8640
WINDOWS, RATE_4, RATE_128 = 43, 21, 20
SM12 = {"gpu": "rtx-pro-6000-blackwell-ws"}
GROWING = RATE_4 * (ROWS + KEYS) + RATE_128 * FEW_ROWS


def planned() -> Iterator[Any]:
    for row in cases("compressed"):
        for plan in row["plans"]:
            name = f"{row['engine_version']}-{plan['model']}-{plan['context_tokens']}-pp{plan['pipeline_parallel']}"
            yield pytest.param(row["engine_version"], plan, id=name)


@pytest.mark.parametrize("version, plan", list(planned()))
def test_a_plan_is_exactly_the_one_of_the_releases_own_planner(quote: Hold, version: str, plan: dict[str, Any]) -> None:
    wanted = {name: plan[name] for name in ("blocks", "kv_capacity_tokens", "max_concurrency")}
    asked = {name: value for name, value in plan.items() if name not in {*wanted, "drafted"}}
    if plan["drafted"]:
        asked |= {"speculative_method": "mtp", "speculative_tokens": 1}
    held = quote(**FLASH | asked, engine_version=version)
    assert held.starts
    assert (held.blocks, held.capacity_tokens) == (wanted["blocks"], wanted["kv_capacity_tokens"])
    assert held.concurrency == pytest.approx(wanted["max_concurrency"], abs=1e-6)


def test_pages_are_those_that_the_layers_return(setting_of: SettingOf, engine: VllmEngine) -> None:
    facts = engine.release(None).cores["v1"].compressed.pages
    pages = pages_of(setting_of(**FLASH).model.architecture.caches, facts)
    assert sorted((page.bytes, len(page.layers), page.block_tokens, page.window_tokens) for page in pages) == sorted(
        [
            (ROWS, WINDOWS, 64, 128),
            (ROWS, RATE_4, 256, 0),
            (FEW_ROWS, RATE_128, 256, 0),
            (KEYS, RATE_4, 256, 0),
            (STATES, RATE_4, 4, 8),
            (KEY_STATES, RATE_4, 4, 8),
            (STATES, RATE_128, 8, 128),
        ]
    )


@pytest.mark.parametrize(
    "version, block_bytes",
    [
        # 22 windows of 43 are the largest group: as many tuples, as many slots, or the growing group alone.
        ("0.20.0", 22 * (ROWS + KEYS + FEW_ROWS)),
        ("0.22.1", 22 * (ROWS + KEYS + FEW_ROWS)),
        ("0.23.0", 22 * ROWS + RATE_4 * KEYS + RATE_128 * FEW_ROWS),
        ("0.26.0", 22 * ROWS + RATE_4 * KEYS + RATE_128 * FEW_ROWS),
        ("0.27.0", GROWING),
        ("0.33.0", GROWING),
    ],
)
def test_a_block_holds_what_its_release_lays_side_by_side(quote: Hold, version: str, block_bytes: int) -> None:
    held = quote(**FLASH, engine_version=version)
    assert held.rank.block_bytes == block_bytes
    assert sorted(group.layers for group in held.plan.groups) == [20, 21, 22, 42, 62]


def test_a_request_holds_its_blocks_and_its_windows_and_what_is_in_flight(quote: Hold) -> None:
    held = quote(**FLASH, max_batched_tokens=2048, engine_version="0.33.0")
    flight = 2 * 2048
    windows = 2 * (-(-(127 + flight) // 64) + 1)
    states = -(-(7 + flight) // 4) + 1 + -(-(127 + flight) // 8) + 1
    assert held.limit_blocks == held.printed_blocks == 32768 // 256 + windows + states


def test_older_releases_print_blocks_by_the_bytes_that_they_fill(quote: Hold) -> None:
    held = quote(**FLASH, max_batched_tokens=2048, engine_version="0.25.1")
    # 2,048 tokens in flight: 35 blocks of 64, 515 of 4 and 273 of 8; states are padded to the next page that grows.
    filled = 128 * GROWING + 35 * WINDOWS * ROWS + 515 * RATE_4 * (ROWS + KEY_STATES) + 273 * RATE_128 * ROWS
    assert held.printed_blocks == -(-filled // GROWING)
    assert held.printed_blocks < held.limit_blocks == 128 + 2 * 35 + 515 + 273
    assert held.concurrency == held.blocks / held.printed_blocks
    assert held.sequences == held.blocks // held.limit_blocks


def test_a_start_fails_as_a_log_says_and_for_the_length_that_it_says(quote: Hold) -> None:
    """vLLM issue 44376, two GH200 with 0.22: 30,000 tokens need 6.66 GiB, and 5.44 hold 13,528 at most."""
    asked = FLASH | {"context_tokens": 30000, "max_batched_tokens": 16384, "engine_version": "0.22.0"}
    held = quote(**asked, kv_cache_bytes=round(5.44 * GIB))
    assert not held.starts
    assert round(held.limit_blocks * held.rank.block_bytes / GIB, 2) == 6.66
    assert held.longest_limit == pytest.approx(13528, abs=8)  # 5.44 GiB are rounded
    assert quote(**asked, kv_cache_bytes=round(6.67 * GIB)).starts


@pytest.mark.parametrize("version, tuples", [("0.26.0", True), ("0.28.0", True), ("0.29.0", False)])
def test_whether_the_longest_request_fits_is_asked_in_tuples_at_first(quote: Hold, version: str, tuples: bool) -> None:
    asked = FLASH | {"engine_version": version, "max_batched_tokens": 4096}
    held = quote(**asked)
    counted = 22 * (ROWS + KEYS + FEW_ROWS) if tuples else held.rank.block_bytes
    needed = (held.limit_blocks + held.rules.paging.null_block) * counted
    assert quote(**asked, kv_cache_bytes=needed).starts
    assert not quote(**asked, kv_cache_bytes=needed - 1).starts
    assert held.needed_bytes(0) == needed


def test_each_stage_lays_out_its_own_layers(quote: Hold) -> None:
    plan = quote(**FLASH | {"pipeline_parallel": 2}).plan
    assert isinstance(plan, PackedPlan)
    # Layers 0 to 21 and 22 to 42: ten of each rate, and eleven of the lower one.
    assert plan.stage_bytes == (10 * (ROWS + KEYS + FEW_ROWS), 11 * (ROWS + KEYS) + 10 * FEW_ROWS)


def test_stages_without_a_layer_of_some_group_are_refused_where_they_count_otherwise(quote: Hold) -> None:
    """The first of 22 stages has two windows and nothing that is compressed."""
    asked = FLASH | {"tensor_parallel": 1, "pipeline_parallel": 22, "kv_cache_bytes": GIB, "context_tokens": 4096}
    with pytest.raises(NotSupported, match="Stage 0 of 22"):
        quote(**asked, engine_version="0.28.0")
    held = quote(**asked, engine_version="0.33.0")
    assert held.blocks == GIB // (ROWS + KEYS + FEW_ROWS) == 22459


def test_of_groups_that_waste_as_few_places_the_largest_are_made(setting_of: SettingOf, engine: VllmEngine) -> None:
    """Five layers, two of the lower rate: groups of two and of three waste two places; the planner takes three."""
    rules = engine.release(None).cores["v1"].compressed
    few, many, every = (0, 3), (1, 2, 4), tuple(range(5))
    caches = [
        replace(owners, layers=every if 0 in owners.layers else few if 2 in owners.layers else many)
        for owners in setting_of(**FLASH).model.architecture.caches
    ]
    plan = packed(caches, [range(5)], rules)
    assert [group.layers for group in plan.groups] == [7, 3, 2, 3, 4]
    assert GIB // plan.stage_bytes[0] == 9559


@pytest.mark.parametrize("drafts", [{}, {"speculative_method": "mtp", "speculative_tokens": 1}])
def test_a_pass_holds_streams_and_padded_heads(
    setting_of: SettingOf, engine: VllmEngine, drafts: dict[str, Any]
) -> None:
    rules = engine.release(None).cores["v1"]
    setting = setting_of(**FLASH, max_batched_tokens=8192, **drafts)
    stream = 8192 * 4096 * 2
    held, earlier = (added(setting, rules.compressed, batch_of(setting, rules), last=last) for last in (True, False))
    # Four times the three streams beside one; queries and output of 8 heads as of 64, above 512 MiB of scores.
    assert held.forward == 4 * 3 * stream + 2 * 8192 * 64 * 512 * 2
    vectors = 4 * (32768 // 4 + 128 + 8192) * 512 * 2 + 8192 * 640 * 4
    keys = 40 * 32768 // 4 * 132
    assert held.kept == max(vectors, keys) + 8192 * 512 * 4 + (4 * stream if drafts else 0)
    assert earlier.kept == held.kept - (4 * stream if drafts else 0)


def test_what_a_draft_keeps_is_not_remembered_for_one_without_layers(quote: Hold) -> None:
    asked = FLASH | {"max_batched_tokens": 8192, "speculative_tokens": 2}
    own, none = (gib(quote(**asked, speculative_method=method), "activations") for method in ("mtp", "ngram"))
    assert own - none == pytest.approx(4 * 8192 * 4096 * 2 / GIB)


def test_nothing_is_expanded_for_earlier_chunks_of_a_prompt(setting_of: SettingOf) -> None:
    setting = setting_of(**FLASH)
    assert widths_of(setting.model, setting.layout).latent_heads == 0


@pytest.mark.parametrize("version, second", [("0.27.1", False), ("0.28.0", True), ("0.29.0", True)])
def test_the_second_runner_takes_it_from_a_release_on(
    setting_of: SettingOf, engine: VllmEngine, version: str, second: bool
) -> None:
    assert second_runner(setting_of(**FLASH), engine.release(version).cores["v1"]) is second


@pytest.mark.parametrize(
    "asked, kind, fault",
    [
        ({"engine_version": "0.19.1"}, NotSupported, Fault("/engine_version", "0.20.0 was the first", ("0.20.0",))),
        ({"gpu": "a100-sxm-80gb"}, NotSupported, Fault("/gpu", "of compute capability 8")),
        (SM12 | {"engine_version": "0.23.0"}, NotSupported, Fault("/gpu", "it attends on 9.x, 10.x")),
        ({"gpu": "mi355x"}, NotSupported, Fault("/gpu", "kernels there are others")),
        ({"kv_dtype": "bf16"}, NotSupported, Fault("/kv_dtype", "in 8 bits, not in bf16")),
        ({"kv_dtype": "nvfp4"}, NotSupported, Fault("/kv_dtype", "in 8 bits, not in nvfp4")),
        ({"attention_backend": "flashmla"}, NotSupported, Fault("/attention_backend", "flashmla does not compute")),
        ({"block_tokens": 64}, ValidationError, Fault("/block_tokens", "blocks of 256 tokens, not of 64")),
        ({"hybrid_cache": False}, NotSupported, Fault("/hybrid_cache", "groups of their own")),
        (
            {"speculative_method": "eagle3", "speculative_tokens": 2},
            NotSupported,
            Fault("/speculative_method", "by eagle3 keeps"),
        ),
        ({"decode_context_parallel": 2}, ValidationError, Fault("/decode_context_parallel", "do not share")),
    ],
)
def test_what_is_not_described_is_refused_by_name(
    quote: Hold, asked: dict[str, Any], kind: type[QuoteError], fault: Fault
) -> None:
    with pytest.raises(kind, match=fault.detail) as refused:
        quote(**FLASH | asked)
    assert refused.value.faults[0].pointer == fault.pointer


def test_a_catalog_of_before_says_nothing_of_it(setting_of: SettingOf) -> None:
    facts = {name: value for name, value in entry(CatalogKind.ENGINE, "vllm").facts.items() if name != "compressed"}
    older = from_facts(Entry(CatalogKind.ENGINE, "vllm", facts, 1))
    with pytest.raises(NotSupported, match="not described yet"):
        hold(setting_of(**FLASH), older.release(None))
    llama = setting_of(model="llama-3.1-8b-instruct", gpu="h100-sxm-80gb")
    assert hold(llama, older.release(None)).starts


@pytest.mark.parametrize(
    "asked",
    [
        {"kv_dtype": "fp8_ds_mla"},
        {"kv_dtype": "fp8_ds_mla_compressed"},
        {"block_tokens": 256},
        {"attention_backend": "FLASHMLA_SPARSE"},
        SM12 | {"engine_version": "0.24.0"},
    ],
)
def test_what_means_the_same_is_paged_alike(quote: Hold, asked: dict[str, Any]) -> None:
    version = asked.get("engine_version")
    assert quote(**FLASH | asked).plan == quote(**FLASH, engine_version=version).plan


def test_loading_keeps_some_modules_wide_and_two_tables_of_angles(quote: Hold, setting_of: SettingOf) -> None:
    held, model = quote(**FLASH), setting_of(**FLASH).model
    hidden, streams = 4096, 4
    compressors = hidden * 2 * (RATE_128 * 512 + RATE_4 * 1024 + RATE_4 * 256) + RATE_4 * 64 * hidden
    mixes = 2 * WINDOWS * 24 * streams * hidden + streams * streams * hidden
    wider = compressors + 2 * mixes
    added = held.loaded.padded_bytes[0]
    # 16 bits instead of 8, less the scales of 8 bits; 32 instead of 16; and places, scales and sinks, which are small.
    assert added == pytest.approx(wider, rel=0.01)
    assert held.loaded.rotary_bytes == 2 * model.architecture.context_tokens * 64 * 4  # type: ignore[operator]


@pytest.mark.parametrize("drafter, tables", [({}, 1), ({"speculative_method": "mtp", "speculative_tokens": 1}, 2)])
def test_a_model_whose_layers_all_have_vectors_has_one_table_of_angles(
    quote: Hold, drafter: dict[str, Any], tables: int
) -> None:
    """Of DeepSeek-V4-Pro's compress_ratios the last alone is 0, its drafter's: common/rope.py of vLLM 0.33.0."""
    held = quote(**FLASH | {"model": "deepseek-v4-pro"}, **drafter)
    assert held.loaded.rotary_bytes == tables * 1_048_576 * 64 * 4


def test_prediction_layers_weigh_what_the_checkpoint_stores(quote: Hold) -> None:
    alone, drafted = quote(**FLASH), quote(**FLASH, speculative_method="mtp", speculative_tokens=1)
    experts = 256 * 3 * 2048 * 4096 * 17 // 32 // 8
    added = drafted.rank.weight_bytes - alone.rank.weight_bytes
    assert experts < added < experts * 1.25
    assert [group.layers for group in drafted.plan.groups if group.block_tokens == 64] == [22, 22]


VECTORS = 4 * (64 + 128 + 8192) * 512 * 2 + 8192 * 640 * 4
"""Of four prompts of 256 tokens in batches of 8,192: vectors, windows and what is new, and places of those picked."""


@pytest.mark.parametrize(
    "version, context, more",
    [
        ("0.33.0", 1048576, 4 * (262144 - 64) * 512 * 2),
        ("0.25.1", 1048576, 40 * 262144 * 132 - VECTORS),
        ("0.33.0", 262144, 40 * 65536 * 132 - VECTORS),
    ],
)
def test_prompts_gather_vectors_or_the_keys_that_pick_them(quote: Hold, version: str, context: int, more: int) -> None:
    """forward_mqa of flashmla.py, and get_max_prefill_buffer_size of mla/indexer.py, which share a workspace."""
    asked = FLASH | {"engine_version": version, "max_batched_tokens": 8192}
    long, short = (quote(**asked | {"context_tokens": length}) for length in (context, 256))
    assert gib(long, "activations") - gib(short, "activations") == pytest.approx(more / GIB, abs=1e-9)
