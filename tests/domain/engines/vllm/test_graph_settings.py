"""Graphs as asked for: sizes, the largest, and which kinds are captured."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.domain.engines.vllm import VllmEngine
from service.domain.engines.vllm.batch import batch_of
from service.domain.engines.vllm.graphs import sizes_of
from service.domain.errors import NotSupported, QuoteError, ValidationError
from service.domain.spans import GRAPH_MODES, SPANS
from tests.computing import quickly
from tests.domain.engines.vllm.conftest import GIB, Hold, SettingOf

# Llama-3.1-8B on an RTX 4090 with 0.29.0: 32 layers, 0.1875 MiB a size in pieces and 0.15 whole, 24 for the first.
ASKED: dict[str, Any] = {"gpu": "rtx-4090", "model": "llama-3.1-8b-instruct", "context_tokens": 4096}


def sizes(setting_of: SettingOf, engine: VllmEngine, **asked: object) -> tuple[list[int], list[int]]:
    """Sizes in pieces and of whole steps."""
    setting, rules = setting_of(**{**ASKED, **asked}), engine.release(None).cores["v1"]
    return sizes_of(setting, rules, batch_of(setting, rules))


def graph_bytes(quote: Hold, **asked: object) -> int:
    """What of the reserve is graphs."""
    return sum(part.span.middle for part in quote(**{**ASKED, **asked}).parts if part.name == "graphs")


@pytest.mark.parametrize(
    "asked, pieces, steps",
    [
        ({"graph_sizes": (8, 1, 2, 8)}, [1, 2, 8], [1, 2, 8]),
        ({"graph_sizes": (1, 512, 4096)}, [1, 512], [1]),
        ({"graph_size_limit": 16}, [1, 2, 4, 8, 16], [1, 2, 4, 8, 16]),
        ({"graph_sizes": (1, 2), "graph_mode": "piecewise"}, [1, 2], []),
        ({"graph_sizes": (1, 2), "graph_mode": "full_decode_only"}, [], [1, 2]),
        ({"graph_sizes": (1, 2), "graph_mode": "none"}, [], []),
        ({"graph_sizes": (1, 512), "graph_mode": "full"}, [1, 512], [1]),
        ({"graph_sizes": (1, 512), "graph_mode": "full", "gpu": "h100-sxm-80gb"}, [], [1, 512]),
        ({"graph_sizes": (1, 512), "graph_mode": "full", "attention_backend": "TRITON_ATTN"}, [], [1, 512]),
    ],
)
def test_sizes_are_captured_as_asked(
    setting_of: SettingOf, engine: VllmEngine, asked: dict[str, object], pieces: list[int], steps: list[int]
) -> None:
    assert sizes(setting_of, engine, **asked) == (pieces, steps)


def test_a_limit_above_the_default_is_taken(setting_of: SettingOf, engine: VllmEngine) -> None:
    pieces, steps = sizes(setting_of, engine, graph_size_limit=1024)
    assert (pieces[-1], len(pieces), steps[-1]) == (1024, 3 + 31 + 49, 256)
    assert sizes(setting_of, engine)[0][-1] == 512


def test_each_size_left_out_is_what_one_takes_of_every_layer(quote: Hold) -> None:
    two, three = (graph_bytes(quote, graph_sizes=chosen) for chosen in ((1, 64), (1, 2, 64)))
    assert three - two == 32 * (196608 + 157286)
    pieces = graph_bytes(quote, graph_sizes=(1, 2, 64), graph_mode="piecewise")
    assert three - pieces == 2 * 32 * 157286


def test_without_pieces_the_first_step_takes_what_both_do(quote: Hold) -> None:
    """On an H100 the first has 32 partial results of 32 heads of 128 and 64 tokens, 4 B each, beside what pieces do."""
    asked = {"graph_sizes": (64,), "gpu": "h100-sxm-80gb"}
    pieces = graph_bytes(quote, **asked, graph_mode="piecewise")
    steps = graph_bytes(quote, **asked, graph_mode="full_decode_only")
    assert steps - pieces == 4 * 32 * 64 * 32 * 128
    assert graph_bytes(quote, **asked) == max(pieces, 4 * 32 * 64 * 32 * 128)


def test_no_graphs_leave_their_memory_to_the_cache(quote: Hold) -> None:
    plain, none = quote(**ASKED), quote(**ASKED, graph_mode="none")
    assert graph_bytes(quote, graph_mode="none") == 0
    assert none.rank.room_bytes - plain.rank.room_bytes == graph_bytes(quote)


def test_releases_that_capture_after_sizing_ask_nothing_of_the_cache(quote: Hold) -> None:
    asked = {**ASKED, "engine_version": "0.19.0"}
    assert quote(**asked).blocks == quote(**asked, graph_sizes=(1,), graph_mode="piecewise").blocks


@pytest.mark.parametrize(
    "asked, pointer, kind",
    [
        ({"graph_mode": "all"}, "/graph_mode", ValidationError),
        ({"graph_sizes": (1, 8), "graph_size_limit": 16}, "/graph_size_limit", ValidationError),
        ({"graph_mode": "full", "model": "qwen3-8b", "weight_dtype": "fp8"}, "/graph_mode", NotSupported),
    ],
)
def test_what_cannot_be_is_refused_at_its_name(
    quote: Hold, asked: dict[str, object], pointer: str, kind: type[QuoteError]
) -> None:
    with pytest.raises(kind) as raised:
        quote(**{**ASKED, **asked})
    assert raised.value.faults[0].pointer == pointer


@pytest.mark.parametrize("asked", [{"enforce_eager": True}, {"graph_mode": "none"}])
def test_sizes_do_not_matter_where_nothing_is_captured(quote: Hold, asked: dict[str, object]) -> None:
    assert graph_bytes(quote, **asked, graph_sizes=(1, 8), graph_size_limit=16) == 0


@given(
    chosen=st.lists(st.integers(1, 2048), min_size=2, max_size=40),
    left_out=st.integers(0, 39),
    mode=st.sampled_from(GRAPH_MODES),
    gpu=st.sampled_from(["rtx-4090", "h100-sxm-80gb", "b200-sxm-180gb"]),
)
def test_fewer_sizes_never_take_more(quote: Hold, chosen: list[int], left_out: int, mode: str, gpu: str) -> None:
    """Attention is split in graphs of up to 992 tokens: without larger ones the first takes partial results besides."""
    fewer = [*chosen[:left_out], *chosen[left_out + 1 :]]
    assume(max(fewer) == max(chosen) or max(chosen) <= 992)
    asked = {"gpu": gpu, "graph_mode": mode}
    less, more = (graph_bytes(quote, **asked, graph_sizes=tuple(some)) for some in (fewer, chosen))
    assert 0 <= less <= more <= 64 * GIB


@given(limits=st.tuples(st.integers(1, 4096), st.integers(1, 4096)), mode=st.sampled_from(GRAPH_MODES))
def test_a_lower_limit_never_takes_more(quote: Hold, limits: tuple[int, int], mode: str) -> None:
    low, high = (graph_bytes(quote, graph_mode=mode, graph_size_limit=limit) for limit in sorted(limits))
    assert low <= high


def test_the_largest_limit_that_a_question_may_ask_is_quoted_quickly(quote: Hold) -> None:
    """Of every sixteenth size each is counted: without a limit of limits a question could ask for a hundred million."""
    most = int(SPANS["graph_size_limit"].greatest)
    found = quickly(lambda: graph_bytes(quote, graph_size_limit=most, max_batched_tokens=2**31))
    assert found > graph_bytes(quote, graph_size_limit=most // 2, max_batched_tokens=2**31) > 0
