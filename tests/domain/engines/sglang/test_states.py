"""States beside tokens, by release, against the releases' own arithmetic in plain numbers."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from service.domain.engines.sglang.pools import Drafts, StatePool, TokenPool
from service.domain.engines.sglang.rules import StateRule
from tests.domain.agreement import ask, parts

GIB = 1 << 30
HYBRID = {"model": "qwen3.5-27b", "engine": "sglang", "memory_bytes": 150 * GIB, "context_tokens": 8192}
STATE = 48 * (48 * 128 * 128 * 4 + 3 * 10240 * 2)
"""48 layers of 48 heads, 128 x 128 in 32 bits, and three inputs of 10,240 channels in 16."""


def with_each_slot(rest: int, drafts: int) -> int:
    slots = int(Fraction(rest * 9, 19)) // STATE // (1 + drafts)
    return slots * STATE * (1 + drafts)


def of_the_limit(rest: int, drafts: int) -> int:
    fixed = STATE * 48 * drafts
    return fixed + int(Fraction((rest - fixed) * 9, 19)) // STATE * STATE


def of_those_that_run(rest: int, drafts: int, each: int, spare: int) -> int:
    share = Fraction(rest * 9, 19)
    slots = int((share - spare * STATE * (1 + drafts)) // (STATE * (1 + Fraction(drafts, each))))
    return (slots + spare) * STATE + (min(48, slots // each) + (spare if drafts else 0)) * drafts * STATE


@pytest.mark.parametrize(
    "release,states",
    [
        ("0.5.5.post3", with_each_slot),
        ("0.5.6", with_each_slot),
        ("0.5.7", of_the_limit),
        ("0.5.9", of_the_limit),
        ("0.5.11", of_the_limit),
        ("0.5.13", lambda rest, drafts: of_those_that_run(rest, drafts, 3, 0)),
        ("0.5.16", lambda rest, drafts: of_those_that_run(rest, drafts, 5, 0)),
        ("0.5.17", lambda rest, drafts: of_those_that_run(rest, drafts, 5, 1)),
        ("0.5.23", lambda rest, drafts: of_those_that_run(rest, drafts, 5, 1)),
    ],
)
@pytest.mark.parametrize("drafting", [{}, {"speculative_method": "nextn"}])
@pytest.mark.parametrize("memory_gib", [140, 150, 250])
def test_states_are_what_the_release_splits_off(
    release: str, states: Callable[[int, int], int], drafting: dict[str, Any], memory_gib: int
) -> None:
    answer = ask(HYBRID | drafting | {"engine_version": release, "memory_bytes": memory_gib * GIB})
    assert answer is not None
    found = parts(answer)
    rest = _budget(answer)

    assert found["reserve.state"] == states(rest, 4 if drafting else 0)


def _budget(answer: dict[str, Any]) -> int:
    """What the derivation says is left for the cache."""
    line = next(line for line in answer["derivation"] if line.endswith("B for the cache"))
    return int(line.rsplit("=", 1)[1].split()[0].replace(",", ""))


def test_states_of_drafts_that_memory_does_not_hold_are_said_to_be_too_much() -> None:
    """0.5.9 keeps 48 x 4 states of 147 MB before anything else."""
    answer = ask(HYBRID | {"speculative_method": "nextn", "engine_version": "0.5.9", "memory_bytes": 90 * GIB})
    assert answer is not None

    assert answer["fits"] is False
    assert parts(answer)["reserve.state"] >= 48 * 4 * STATE
    assert answer["ledger"]["overcommitted_bytes"] > 0


def test_drafts_are_as_many_as_the_release_chooses() -> None:
    drafted = ask(HYBRID | {"speculative_method": "nextn"})
    asked = ask(HYBRID | {"speculative_method": "nextn", "speculative_tokens": 2})
    assert drafted is not None
    assert asked is not None

    assert (drafted["question"]["speculative_tokens"], drafted["taken"]["speculative_tokens"]) == (4, "catalog")
    assert asked["taken"]["speculative_tokens"] == "request"
    assert drafted["max_running_sequences"] <= 48


def test_a_log_of_states_in_16_bits_and_half_the_ratio() -> None:
    """Qwen3.5-27B printed 43 slots, 0.12 + 3.09 + 2.11 + 0.04 GiB, and 171,008 tokens, drafting two."""
    state = 48 * (48 * 128 * 128 * 2 + 3 * 10240 * 2)
    tokens = TokenPool(65536 + 4096, 0, 0, (4, 5), 1, exact=False)
    rule = StateRule((1, 2), 1, 3, 3, frozenset(), "running", 2)
    pool = StatePool(tokens, state, rule, 3, Drafts(2, 3, 48), None)
    budget = 171008 * 69632 + 44 * state + 15 * 2 * state

    assert pool.slots(budget) == 43
    assert pool.tokens(budget) == 171008
    assert pool.states(budget) / GIB == pytest.approx(0.12 + 3.09 + 2.11 + 0.04, abs=0.05)
