"""Compressed attention of DeepSeek-V4 with SGLang: its pools by release, what loading takes, what nobody described."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.domain.catalog import CatalogKind
from service.domain.engines.ranks.held import Held
from service.domain.engines.ranks.setting import Setting, setting_of
from service.domain.engines.sglang.capacity import hold
from service.domain.engines.sglang.compressed import CompressedPool, loading_bytes
from service.domain.engines.sglang.policy import SglangEngine, from_facts
from service.domain.engines.sglang.pools import TokenPool
from service.domain.errors import Fault, NotSupported, QuoteError, ValidationError
from service.domain.question import Question, resolve
from tests.domain.agreement import ask, parts
from tests.domain.conftest import Shelf, entry

GIB = 1 << 30
FLASH: dict[str, Any] = {
    "engine": "sglang",
    "model": "deepseek-v4-flash",
    "gpu": "b300-sxm-288gb",
    "tensor_parallel": 8,
    "context_tokens": 32768,
}
H200 = {"gpu": "h200-sxm-141gb", "model": "deepseek-v4-pro"}
RELEASES = yaml.safe_load((Path(__file__).parents[3] / "data" / "sglang_compressed.yaml").read_text())


def quoted(shelf: Shelf, **changed: Any) -> Held:  # noqa: ANN401  # a question's own names
    return held_of(FLASH | changed, shelf)


def held_of(asked: dict[str, Any], shelf: Shelf) -> Held:
    question = resolve(asked, shelf)
    assert isinstance(question.engine, SglangEngine)
    return hold(setting_of(question), question.engine.release(question.version))


def pool_of(held: Held) -> CompressedPool:
    assert isinstance(held.rank.pool, CompressedPool)
    return held.rank.pool


def measured() -> Iterator[Any]:
    for row in RELEASES:
        for number, pool in enumerate(row["pools"]):
            name = f"{row['engine_version']}-{pool['model']}-{number}"
            yield pytest.param(row["engine_version"], pool, id=name)


@pytest.mark.parametrize("version,printed", list(measured()))
def test_pools_are_exactly_those_of_the_releases_own_arithmetic(
    shelf: Shelf, version: str, printed: dict[str, Any]
) -> None:
    wanted = {"kv_capacity_tokens", "window_tokens", "full_token_bytes"}
    asked = {name: value for name, value in printed.items() if name not in wanted}
    held = quoted(shelf, **asked, engine_version=version)
    pool, tokens = pool_of(held), held.capacity_tokens
    assert tokens == printed["kv_capacity_tokens"]
    windows, each = pool.inner.ratio
    size = (pool.inner.full_bytes + pool.inner.window_bytes * windows / each) / pool.scale
    assert size == pytest.approx(printed["full_token_bytes"], abs=1e-3)
    if pool.inner.window_bytes:
        assert pool.window_tokens(tokens) == printed["window_tokens"]


# GiB loaded on each of eight cards: 0.5.19 on cards of 32 GB, and an image of before 2026-07 on H200 whose kernel keeps
# the scales that were loaded, as 0.5.12 to 0.5.15 do.
LOADED = [
    ({"gpu": "rtx-pro-4500-blackwell", "memory_bytes": 33 * GIB, "engine_version": "0.5.19"}, 20.45),
    (H200 | {"engine_version": "0.5.14", "memory_utilization": 0.95}, 125.65),
]


@pytest.mark.parametrize("changed,gib", LOADED)
def test_weights_are_those_that_logs_print(shelf: Shelf, changed: dict[str, Any], gib: float) -> None:
    assert quoted(shelf, **changed).rank.load.weight_bytes / GIB == pytest.approx(gib, rel=0.012)


def test_a_drafter_is_loaded_with_words_head_and_tables_of_its_own(shelf: Shelf) -> None:
    """SemiAnalysisAI/InferenceX 2128: of 137.90 GiB 0.9335 instead of 0.9113 are needed with it, about 3.07."""
    changed = H200 | {"engine_version": "0.5.14", "memory_utilization": 0.97}
    plain, drafted = (quoted(shelf, **changed, **more) for more in ({}, {"speculative_method": "nextn"}))
    added = drafted.rank.load.weight_bytes - plain.rank.load.weight_bytes
    assert added / GIB == pytest.approx(3.07, rel=0.02)
    assert drafted.terms.most_sequences == plain.terms.most_sequences == 256


@pytest.mark.parametrize("version,counted", [("0.5.13", False), ("0.5.14", True)])
def test_a_drafter_counts_from_where_it_is_loaded_before_the_pools(shelf: Shelf, version: str, counted: bool) -> None:
    plain, drafted = (quoted(shelf, engine_version=version, **more) for more in ({}, {"speculative_method": "mtp"}))
    assert (drafted.rank.load.weight_bytes > plain.rank.load.weight_bytes) is counted
    assert drafted.capacity_tokens < plain.capacity_tokens


@pytest.mark.parametrize(
    "version,gpu,kept",
    [
        ("0.5.12", "h200-sxm-141gb", True),
        ("0.5.15", "h200-sxm-141gb", True),
        ("0.5.16", "h200-sxm-141gb", False),
        ("0.5.12", "b300-sxm-288gb", False),
        ("0.5.13", "rtx-pro-6000-blackwell-ws", True),
        ("0.5.16", "rtx-pro-6000-blackwell-ws", False),
    ],
)
def test_scales_that_were_loaded_stay_where_marlin_keeps_them(shelf: Shelf, version: str, gpu: str, kept: bool) -> None:
    """Four bytes for every 32 elements of 277 billion in experts, over eight ranks: 4.03 GiB."""
    newest = quoted(shelf, gpu=gpu, engine_version="0.5.23").rank.load.weight_bytes
    added = quoted(shelf, gpu=gpu, engine_version=version).rank.load.weight_bytes - newest
    tables = -(1 << 29) if version == "0.5.12" else 0
    assert added - tables == pytest.approx(4.03 * GIB if kept else 0, rel=0.001, abs=1)


@pytest.mark.parametrize(
    "version,changed,tables",
    [("0.5.12", {}, 2), ("0.5.13", {}, 4), ("0.5.23", {}, 4), ("0.5.23", H200, 2), ("0.5.12", H200, 1)],
)
def test_tables_of_angles_are_held_for_each_kind_of_layer(
    shelf: Shelf, version: str, changed: dict[str, Any], tables: int
) -> None:
    """Every layer of DeepSeek-V4-Pro compresses; two of DeepSeek-V4-Flash do not, on the first stage."""
    question = resolve(FLASH | changed | {"engine_version": version}, shelf)
    assert isinstance(question.engine, SglangEngine)
    known, stages = question.engine.release(version).compressed, setting_of(_of(shelf, changed, 2))
    none = replace(known.rule, rotary_tables=0)
    whole, without = (loading_bytes(setting_of(question), each) for each in (known, known._replace(rule=none)))
    assert whole[0] - without[0] == tables * (1 << 28)
    both = (loading_bytes(stages, each) for each in (known._replace(rule=none), known))
    first, last = (more - less for less, more in zip(*both, strict=True))
    assert first == tables * (1 << 28)
    assert last == (1 if version == "0.5.12" else 2) * (1 << 28)


def _of(shelf: Shelf, changed: dict[str, Any], stages: int) -> Question:
    return resolve(FLASH | changed | {"pipeline_parallel": stages}, shelf)


def test_nothing_is_loaded_beside_a_weight_size_of_the_questions_own(shelf: Shelf) -> None:
    older, newest = (quoted(shelf, weight_bytes=155 * GIB, engine_version=version) for version in ("0.5.12", "0.5.23"))
    assert older.rank.load.weight_bytes == newest.rank.load.weight_bytes


@pytest.mark.parametrize("version,windows", [("0.5.20", True), ("0.5.21", False)])
def test_more_sequences_cost_tokens_as_the_release_makes_room_for_them(
    shelf: Shelf, version: str, windows: bool
) -> None:
    few, many = (quoted(shelf, engine_version=version, max_sequences_limit=limit) for limit in (16, 512))
    assert pool_of(few).fixed_bytes < pool_of(many).fixed_bytes
    assert few.capacity_tokens > many.capacity_tokens
    assert bool(pool_of(many).inner.window_bytes) is windows
    assert many.terms.most_sequences == 512


def test_as_many_sequences_run_as_the_release_says_for_such_models(shelf: Shelf) -> None:
    assert quoted(shelf).terms.most_sequences == 256
    assert quoted(shelf, attention_data_parallel=8).terms.most_sequences == 32


def test_graphs_of_prompts_are_never_captured() -> None:
    """Both shares leave 1.5 x 16,384 + 512 + 1,024 + 2 x 512 MiB of 275,040 MiB."""
    for version in ("0.5.12", "0.5.14", "0.5.18", "0.5.23"):
        answer = ask(FLASH | {"engine_version": version})
        assert answer is not None
        assert answer["question"]["memory_utilization"] == pytest.approx(1 - 27136 / 275040, abs=2e-3)


def test_a_pool_of_windows_that_admits_no_sequence_stops_the_start_from_where_it_is_asked() -> None:
    inner = TokenPool(3850 * 256, 0, 128, (1, 10), 256, exact=False)
    least = CompressedPool(replace(inner, window_bytes=38552 * 256), 0, 256, 256, 384)
    older = replace(least, least_window_tokens=0)
    size = older.needed(1, 256)
    assert older.tokens(size) > 0
    assert older.window_tokens(older.tokens(size)) == 256
    assert least.tokens(size) == 0
    assert least.sequences(size, 256) == 0
    enough = least.needed(1, 256)
    assert least.sequences(enough, 256) >= 1
    assert least.tokens(enough - 1) == 0


REFUSED: list[tuple[dict[str, Any], type[QuoteError], str]] = [
    ({"engine_version": "0.5.11"}, NotSupported, "/engine_version"),
    ({"engine_version": "0.4.6"}, NotSupported, "/engine_version"),
    ({"gpu": "mi355x"}, NotSupported, "/gpu"),
    ({"gpu": "a100-sxm-80gb"}, NotSupported, "/gpu"),
    ({"gpu": "rtx-pro-6000-blackwell-ws", "engine_version": "0.5.12"}, NotSupported, "/gpu"),
    ({"kv_dtype": "bf16"}, NotSupported, "/kv_dtype"),
    ({"kv_dtype": "fp8_e5m2"}, NotSupported, "/kv_dtype"),
    ({"attention_backend": "fa3"}, NotSupported, "/attention_backend"),
    ({"block_tokens": 64}, ValidationError, "/block_tokens"),
    ({"hybrid_cache": False}, NotSupported, "/hybrid_cache"),
    ({"speculative_method": "eagle"}, NotSupported, "/speculative_method"),
    ({"speculative_method": "nextn", "model": "deepseek-v4-flash-0731"}, ValidationError, "/speculative_method"),
    ({"speculative_method": "ngram"}, NotSupported, "/speculative_method"),
]


@pytest.mark.parametrize("changed,kind,pointer", REFUSED)
def test_what_nobody_described_is_refused_by_name(
    shelf: Shelf, changed: dict[str, Any], kind: type[QuoteError], pointer: str
) -> None:
    with pytest.raises(kind) as refused:
        quoted(shelf, **changed)
    fault: Fault = refused.value.faults[0]
    assert fault.pointer == pointer


@pytest.mark.parametrize("changed", [{"head_dim": 256}, {"index_head_dim": 64}])
def test_other_widths_are_refused(shelf: Shelf, changed: dict[str, Any]) -> None:
    config = entry(CatalogKind.MODEL, "deepseek-v4-flash").facts["config"] | changed
    question = {name: value for name, value in FLASH.items() if name != "model"} | {"config": config}
    with pytest.raises(NotSupported, match="other widths"):
        held_of(question, shelf)


@pytest.mark.parametrize("named", [{"attention_backend": "DSV4"}, {"block_tokens": 256}, {"kv_dtype": "fp8_e4m3"}])
def test_what_the_release_would_take_is_quoted_alike(shelf: Shelf, named: dict[str, Any]) -> None:
    assert quoted(shelf, **named).capacity_tokens == quoted(shelf).capacity_tokens


def test_a_catalog_of_before_says_that_it_is_not_described(shelf: Shelf) -> None:
    row = entry(CatalogKind.ENGINE, "sglang")
    facts = {name: value for name, value in row.facts.items() if name != "compressed"}
    older = from_facts(replace(row, facts=facts))
    with pytest.raises(NotSupported, match="not described yet"):
        hold(_setting(shelf), older.release("0.5.23"))


def _setting(shelf: Shelf) -> Setting:
    return setting_of(resolve(FLASH, shelf))


def test_the_derivation_says_how_bytes_become_tokens() -> None:
    newest, older = ask(FLASH), ask(FLASH | {"engine_version": "0.5.20"})
    assert newest is not None
    assert older is not None
    assert any("made for the sequences that may run" in line for line in newest["derivation"])
    assert any("3,899.25 B a token in compressed vectors" in line for line in newest["derivation"])
    assert any("0.1 x 38,552.00 B in windows" in line for line in older["derivation"])
    assert any("pools made for 256 sequences" in line for line in newest["assumptions"])
    assert parts(newest)["kv_cache"] > 200 * GIB
