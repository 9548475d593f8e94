"""The expressions of configs' module lists: what Python's own `re` says, in bounded time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain import patterns
from service.domain.patterns import Pattern, PatternError
from tests.computing import quickly

_atoms = st.sampled_from(["a", "b", ".", r"\.", r"\d", "1", "[ab]", "[^a]", "[a-b1]", r"[\d.]", "self_attn"])
_expressions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=8,
)
_texts = st.lists(st.sampled_from(["a", "b", "1", ".", "self_attn", "c"]), max_size=8).map("".join)


@given(expression=_expressions, text=_texts, ended=st.booleans(), begun=st.booleans())
def test_an_expression_matches_what_pythons_own_does(expression: str, text: str, ended: bool, begun: bool) -> None:
    whole = f"{'^' if begun else ''}{expression}{'$' if ended else ''}"

    assert Pattern(whole).matches(text) == (re.match(whole, text) is not None)


@pytest.mark.parametrize("expression", ["$$", "a$$$", "(a$)$", "a$|b$$"])
@pytest.mark.parametrize("text", ["", "a", "b", "ab"])
def test_an_end_may_be_said_more_than_once(expression: str, text: str) -> None:
    assert Pattern(expression).matches(text) == (re.match(expression, text) is not None)


@pytest.mark.parametrize("expression", ["a**", "a+*", "a*??", "(a)**?"])
def test_a_repetition_is_not_repeated(expression: str) -> None:
    with pytest.raises(re.error):
        re.compile(expression)
    with pytest.raises(PatternError, match="a repetition cannot be repeated"):
        Pattern(expression)


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")  # of what `re` may once read otherwise
@given(expression=st.text(alphabet="ab.*+?()[]|^$\\-{}d", max_size=12), text=_texts)
def test_any_text_is_an_expression_or_refused(expression: str, text: str) -> None:
    try:
        found = Pattern(expression).matches(text)
    except PatternError:
        return

    assert found == (re.match(expression, text) is not None)


def test_an_expression_that_goes_back_for_ever_elsewhere_takes_no_time() -> None:
    assert not quickly(lambda: Pattern(r"(a+)+(a|aa)*(.*)*$b").matches("a" * 5000))


@pytest.mark.parametrize(
    "expression", ["(?!a)", "(?=a)", r"\1", "(", ")", "[", "a{2}", "*", "a\\", "(" * 60 + ")" * 60]
)
def test_what_it_does_not_know_is_refused(expression: str) -> None:
    with pytest.raises(PatternError):
        Pattern(expression)


@pytest.mark.parametrize("text", ["", "a", "b", "ab", "aab", "ba"])
@pytest.mark.parametrize("sign", ["*", "+", "?"])
@pytest.mark.parametrize("way", ["?", "+"])
def test_a_lazy_or_possessive_repetition_describes_the_same_texts(sign: str, way: str, text: str) -> None:
    assert Pattern(f"a{sign}{way}b").matches(text) == Pattern(f"a{sign}b").matches(text)


@pytest.mark.parametrize("expression", ["^*a", "a$+", "a^", "[z-a]", r"[a-\d]", r"[\d-z]", "[a-\u00e9]"])
def test_what_means_nothing_or_too_much_is_refused(expression: str) -> None:
    with pytest.raises(PatternError):
        Pattern(expression)


def test_an_expression_of_more_states_than_any_list_needs_is_refused() -> None:
    assert Pattern("a*" * 400).matches("")
    with pytest.raises(PatternError, match="describes too much"):
        Pattern("a*" * 500)


def test_steps_are_kept_up_to_a_number_and_are_right_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_KEPT", 3)
    found, sizes = Pattern("(?:ab|a.c)*d$"), []
    for text in ("abd", "axcd", "abaxcd", "ab", "abaycabd", "axd"):
        assert found.matches(text) == (re.match("(?:ab|a.c)*d$", text) is not None)
        sizes.append(len(found._steps))

    assert max(sizes) == 3


def test_an_expression_too_long_to_be_meant_is_refused() -> None:
    with pytest.raises(PatternError):
        Pattern("a" * 1001)
