"""Patterns of tensor names, followed without a library of regular expressions and compared with one."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.domain.engines.llama_cpp.tensor_patterns import Names, PatternError, read_pattern

NAMES = [
    f"blk.{layer}.{name}.{end}"
    for layer in (0, 1, 7, 10, 19, 20, 93)
    for name in ("ffn_up", "ffn_gate_exps", "ffn_down_exps", "ffn_gate_inp", "ffn_up_shexp", "attn_q", "ffn_norm")
    for end in ("weight", "bias")
] + ["output.weight", "token_embd.weight"]
PATTERNS = [
    *("exps", r"\.ffn_.*_exps\.", ".ffn_.*_exps.", r"\.ffn_(up|down|gate|gate_up)_(ch|)exps", ".*exps.*", "^blk"),
    *(r"blk\.(1[0-9])\.ffn_.*", r"blk\.([0-9]|1[0-9])\.ffn_up", r"blk\.\d+\.ffn_(?:up|gate)_exps\.weight$"),
    *("([0-9]+).ffn_.*_exps.", r"\.(6|7|8|9|[0-9][0-9]|[0-9][0-9][0-9])\.ffn_(gate|up|down)_exps.", "weight$"),
    *(
        r"blk\.[2-9][0-9]?\.",
        "^output",
        "ffn_(up|)_exps",
        "a|b|",
        "[a-f_-]+_q",
        "x*",
        ".?",
        r"blk\.1\.ffn_(gate|down).*",
    ),
]


ALL = Names(NAMES, 1 << 30)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_found_where_a_regular_expression_is(pattern: str) -> None:
    assert read_pattern(pattern).matched(ALL) == {name for name in NAMES if re.search(pattern, name)}


ATOMS = st.sampled_from(["b", "l", ".", r"\.", "[0-9]", r"\d", "[a-c_.]", "ffn", "(up|down)", "(?:a|b.|)", "_", "1"])
TIMES = st.sampled_from(["", "", "", "*", "+", "?"])


@given(st.lists(st.tuples(ATOMS, TIMES), min_size=1, max_size=8), st.booleans(), st.booleans())
def test_made_up_patterns_are_found_alike(parts: list[tuple[str, str]], first: bool, last: bool) -> None:
    text = "^" * first + "".join(atom + ("" if atom[0] == "(" else times) for atom, times in parts) + "$" * last
    assume(sum(bool(times) and atom[0] != "(" for atom, times in parts) <= 6)

    assert read_pattern(text).matched(ALL) == {name for name in NAMES if re.search(text, name)}


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a" * 201,
        "(a",
        "a)",
        "(a)*",
        "a**",
        "a*?",
        "a{2}",
        "[^a]",
        "[a",
        r"\w",
        "a^b",
        "((((((a))))))",
        "a$b",
        "*",
        r"a\\b\q",
        "a*" * 7,
        "[]",
        "é",
        "^a|b",
        "a|b$",
    ],
)
def test_what_is_not_followed_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        read_pattern(pattern)


def test_steps_are_limited() -> None:
    names, pattern = Names(["blk.0.ffn_up.weight"], 30), read_pattern("blk.0.ffn")
    assert [pattern.matched(names) for _ in range(3)] == [{"blk.0.ffn_up.weight"}] * 3

    with pytest.raises(PatternError):
        pattern.matched(names)
