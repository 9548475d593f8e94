"""Answers as JSON: the same value and the same digits as Python's own writer, and nothing that is not JSON."""

import json
from enum import StrEnum
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.replies import encode, written

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers()
texts = st.text()
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)
ascii_texts = st.text(st.characters(min_codepoint=32, max_codepoint=126))


class Colour(StrEnum):
    RED = "red"


@given(st.dictionaries(texts, values))
def test_an_answer_reads_back_as_what_it_is(answer: dict[str, object]) -> None:
    line = written(answer)

    assert line.endswith(b"\n")
    assert json.loads(line) == answer


@given(st.dictionaries(ascii_texts, numbers | ascii_texts | st.lists(numbers)))
def test_numbers_are_spelled_as_python_spells_them(answer: dict[str, object]) -> None:
    assert written(answer) == (encode(answer) + "\n").encode()


@pytest.mark.parametrize(
    "number",
    [0.0, -0.0, 1e-4, 9.9e-5, 1e-5, 1.5e-7, 5e-324, 0.1, 1.0, 1e15, 1e16, 123456789012345680.0, 1e22, 1.7e308],
)
def test_numbers_with_exponents_are_spelled_as_python_spells_them(number: float) -> None:
    assert written({"n": number, "m": [-number]}) == f'{{"n":{number!r},"m":[{-number!r}]}}\n'.encode()


@pytest.mark.parametrize("number", [nan, inf, -inf])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_what_is_not_finite_is_never_written(number: float, depth: int) -> None:
    value: object = number
    for _ in range(depth):
        value = {"rows": [1, (value,)]}

    with pytest.raises(ValueError, match="not JSON compliant"):
        written({"first": None, "value": value})


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40])
def test_integers_of_any_size_keep_their_digits(number: int) -> None:
    assert written({"n": number}) == b'{"n":%d}\n' % number


def test_a_lone_surrogate_is_escaped() -> None:
    assert written({"name": "\ud800"}) == b'{"name":"\\ud800"}\n'


def test_text_beyond_ascii_is_utf_8() -> None:
    assert written({"name": "10 µs"}) == '{"name":"10 µs"}\n'.encode()


def test_names_keep_their_order() -> None:
    assert written({"b": {"z": 1, "a": 2}, "a": (1, 2)}) == b'{"b":{"z":1,"a":2},"a":[1,2]}\n'


def test_an_enumeration_is_written_as_its_text() -> None:
    assert written({"colour": Colour.RED}) == b'{"colour":"red"}\n'


def test_what_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        written({"when": object()})
