"""TensorRT-LLM's recurrent states by release: what a slot has, how many there are, and what they are taken out of."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.domain.cache.recurrent import RecurrentCache
from service.domain.errors import NotSupported
from tests.domain.agreement import ask, check_agrees, check_levers, parts
from tests.domain.conftest import Ask, Shelf

FROZEN = yaml.safe_load((Path(__file__).parents[1] / "data" / "tensorrt_llm_states.yaml").read_text("utf-8"))
GIB = 1 << 30
# No card has such room: states of every model fit, and tokens of a batch of the longest length do not.
ROOM = {"engine": "tensorrt-llm", "context_tokens": 8192, "context_limit_tokens": 1 << 18, "memory_bytes": 1 << 40}
# A cache of a known size: 8 layers attend with 4 heads of 256, keys and values; 24 have states.
EMPTY = {"model": "qwen3.5-9b", "engine": "tensorrt-llm", "weight_bytes": 1, "reserve_bytes": 0, "memory_bytes": 10**11}
TOKEN, SLOT = 8 * 4096, 26_345_472
FREE, SHARE = 10**11 - 1, int((10**11 - 1) * Fraction(9, 10))
BEFORE, SHARED, STAGED, LAST = "1.3.0rc12", "1.3.0rc15", "1.3.0rc16", "1.3.0rc24"


def states(answer: dict[str, Any]) -> int:
    return parts(answer)["reserve.state"]


@pytest.mark.parametrize("row", FROZEN["slots"], ids=lambda row: f"{row['model']}-{row['engine_version']}")
def test_a_slot_has_the_bytes_that_the_engine_gives_it(ask_fit: Ask, row: dict[str, Any]) -> None:
    question = ROOM | {name: row[name] for name in ("model", "engine_version", "tensor_parallel")}
    answer, more = ask_fit(**question), ask_fit(**question, max_sequences_limit=2049)
    assert states(answer) == row["slots"] * row["bytes"]
    assert states(more) - states(answer) == row["bytes"]


@pytest.mark.parametrize("row", FROZEN["starts"], ids=lambda row: row["id"])
def test_starts_keep_what_they_say(ask_fit: Ask, shelf: Shelf, row: dict[str, Any]) -> None:
    held = Fraction(states(ask_fit(**ROOM | row["question"])))
    if row["kept"] == "matrices":
        caches = [owners.spec for owners in shelf.model(row["question"]["model"]).architecture.caches]
        spec = next(spec for spec in caches if isinstance(spec, RecurrentCache))
        held *= Fraction(spec.state_elements, spec.state_elements + spec.conv_elements)
    if row["kept"] == "slot":
        held /= 2049
    assert float(held / GIB) == pytest.approx(row["gib"], abs=row["tolerance"])


def test_states_are_beside_the_share_then_out_of_it(ask_fit: Ask) -> None:
    kept = {name: value for name, value in EMPTY.items() if name != "reserve_bytes"}
    question = kept | {"context_tokens": 8192, "max_sequences_limit": 64}
    before, shared = (ask_fit(**question, engine_version=version) for version in (BEFORE, SHARED))
    assert states(before) == states(shared) == 64 * SLOT
    gained = parts(shared)["outside_budget"] - parts(before)["outside_budget"]
    assert gained == pytest.approx(64 * SLOT / 10, abs=2)


@pytest.mark.parametrize("version,slots", [(SHARED, 64), (STAGED, 128), (LAST, 129)])
def test_a_rank_keeps_a_batch_for_every_stage(ask_fit: Ask, version: str, slots: int) -> None:
    question = EMPTY | {"context_tokens": 8192, "context_limit_tokens": 1 << 18, "max_sequences_limit": 64}
    answer = ask_fit(**question, engine_version=version, pipeline_parallel=2)
    assert states(answer) == slots * SLOT // 2


def test_an_idle_rank_has_a_dummy_of_its_own(ask_fit: Ask) -> None:
    """In attention data parallel nothing is divided, and the last releases keep a slot more."""
    question = ROOM | {"model": "qwen3.5-9b", "tensor_parallel": 4, "attention_data_parallel": 4}
    assert states(ask_fit(**question, engine_version=STAGED)) == 2048 * SLOT
    assert states(ask_fit(**question, engine_version=LAST)) == 2050 * SLOT


def test_a_cache_that_a_batch_would_not_fill_has_idle_states(ask_fit: Ask) -> None:
    """Of 90 GB 64 sequences of 4,096 tokens take 8.6 and 65 states 1.7: both grow to fill it."""
    question = EMPTY | {"context_tokens": 8192, "max_sequences_limit": 64, "engine_version": LAST}
    answer = ask_fit(**question)
    batch = 64 * 4096 * TOKEN
    tokens = SHARE * batch // (65 * SLOT + batch)
    assert parts(answer)["kv_cache"] == tokens // (32 * TOKEN) * 32 * TOKEN
    assert states(answer) == SHARE - tokens
    assert answer["kv_capacity_tokens"] == -(-tokens // TOKEN // 32) * 32
    check_agrees(answer)
    check_levers(question, answer)


def test_a_start_needs_its_states_at_least(ask_fit: Ask) -> None:
    """2,049 slots of 26 MB are 54 GB; tokens get what is left of the share, and nothing where it is smaller."""
    question = EMPTY | {"context_tokens": 8192, "context_limit_tokens": 1 << 18, "engine_version": LAST}
    answer, small = ask_fit(**question), ask_fit(**question | {"memory_bytes": 50 * 10**9})
    assert states(answer) == 2049 * SLOT
    assert parts(answer)["kv_cache"] + parts(answer)["unused"] == SHARE - 2049 * SLOT
    assert small["fits"] is False
    assert small["ledger"]["overcommitted_bytes"] == 2049 * SLOT - int((50 * 10**9 - 1) * Fraction(9, 10))
    for found in (answer, small):
        check_agrees(found)


def test_a_longest_length_where_batches_fill_the_cache_gives_tokens_the_rest(ask_fit: Ask) -> None:
    """Half the longest length times the batch is the limit: past it only the states of the batch are kept."""
    question = EMPTY | {"context_tokens": 8192, "max_sequences_limit": 64, "engine_version": LAST}
    longest = [1 << n for n in range(13, 19)]
    kept = [states(ask_fit(**question, context_limit_tokens=limit)) for limit in longest]
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] == 65 * SLOT < kept[0]


def test_answers_for_candidates_say_whose_states_they_have(ask_fit: Ask) -> None:
    question = ROOM | {"model": "qwen3-next-80b-a3b-instruct"}
    told = {version: ask_fit(**question, engine_version=version) for version in ("1.2.1", "1.3.0rc23", LAST)}
    lines = {
        version: [line for line in answer["assumptions"] if line.startswith("recurrent")]
        for version, answer in told.items()
    }
    assert lines["1.2.1"] == []
    assert "as TensorRT-LLM 1.3.0rc22 has them, out of the cache's share" in lines["1.3.0rc23"][0]
    assert "in a pool of the cache" in lines[LAST][0]


@pytest.mark.parametrize(
    "model,version,code,nearest",
    [
        ("qwen3.5-27b", None, "Qwen3_5ForConditionalGeneration; 1.3.0rc10 and later have.", "1.3.0rc10"),
        ("qwen3.6-35b-a3b", "1.3.0rc8", "Qwen3_5MoeForConditionalGeneration; 1.3.0rc9 and later have.", "1.3.0rc9"),
        ("kimi-k3", None, "KimiK3ForConditionalGeneration; 1.3.0rc26 and later have.", "1.3.0rc26"),
        ("qwen3-next-80b-a3b-instruct", "1.1.0", "Qwen3NextForCausalLM; 1.2.0 and later have.", "1.2.0"),
    ],
)
def test_releases_without_a_models_code_are_refused_with_the_one_that_has(
    ask_fit: Ask, model: str, version: str | None, code: str, nearest: str
) -> None:
    question = ROOM | {"model": model} | ({"engine_version": version} if version else {})
    with pytest.raises(NotSupported, match=f"has no model code for {code}") as refusal:
        ask_fit(**question)
    (fault,) = refusal.value.faults
    assert (fault.pointer, fault.nearest) == ("/engine_version", (nearest,))
    assert ask(question | {"engine_version": nearest}) is not None


@pytest.mark.parametrize(
    "model,code",
    [
        ("lfm2-1.2b", "Lfm2ForCausalLM."),
        ("jamba-v0.1", "JambaForCausalLM."),
        ("kimi-linear-48b-a3b-instruct", "KimiLinearForCausalLM; 1.3.0rc26 and later have."),
    ],
)
def test_models_that_no_release_is_described_for_point_at_the_engine(ask_fit: Ask, model: str, code: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(**ROOM | {"model": model})
    (fault,) = refusal.value.faults
    assert fault.detail == f"The PyTorch backend of TensorRT-LLM 1.2.1 has no model code for {code}"
    assert (fault.pointer, fault.nearest) == ("/engine", ("none",))


def test_code_whose_states_were_not_read_is_not_quoted(ask_fit: Ask) -> None:
    with pytest.raises(NotSupported, match="keeps the recurrent state of Kimi-Linear"):
        ask_fit(**ROOM | {"model": "kimi-linear-48b-a3b-instruct", "engine_version": "1.4.0rc1"})


@pytest.mark.parametrize("version", ["1.2.1", LAST])
def test_drafts_of_models_with_states_are_not_quoted(ask_fit: Ask, version: str) -> None:
    question = ROOM | {"model": "qwen3-next-80b-a3b-instruct", "engine_version": version}
    with pytest.raises(NotSupported, match="recurrent states of drafted tokens") as refusal:
        ask_fit(**question, speculative_method="mtp", speculative_tokens=1)
    assert refusal.value.faults[0].pointer == "/speculative_method"
