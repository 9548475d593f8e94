"""The types of a question: what each one takes, and that its documentation says just that."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from marshmallow import Schema, ValidationError

from service.api.limits import MAX_EXACT_INTEGER, SPANS, Span
from service.api.schemas.fields import (
    AskedField,
    Choice,
    CommandLine,
    Document,
    Flag,
    ListOf,
    MisreadError,
    Moment,
    Name,
    Number,
    WholeNumber,
)

COUNT = WholeNumber(Span(1, 1024))
SHARE = Number(Span(0, 1, above_least=True))
FIELDS: list[AskedField] = [
    COUNT,
    SHARE,
    Flag(),
    Choice(["auto", "off"]),
    ListOf(COUNT),
    Document(),
    Name(),
    CommandLine(),
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


def taken(field: AskedField, value: Any) -> bool:  # noqa: ANN401
    try:
        field.read(value)
    except MisreadError:
        return False
    return True


@given(value=st.integers(0, 10**21) | st.floats(0, 1e21))
@example(value=2**53 + 1)
@example(value=123_456_789_012_345_678)
def test_a_number_is_the_same_in_an_address_as_in_a_body(value: float) -> None:
    """Whole numbers beyond 2^53 too, which a float would round."""
    field = Number(SPANS["peak_flops_per_second"]._replace(least=0, above_least=False))
    assert repr(field.read_text(repr(value))) == repr(field.read(value))


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: type(field).__name__)
@given(value=VALUES)
def test_whatever_the_documentation_refuses_is_refused(field: AskedField, value: Any) -> None:  # noqa: ANN401
    if not Draft202012Validator(field.described()).is_valid(value):
        assert not taken(field, value)


@pytest.mark.parametrize("field", FIELDS[:5], ids=lambda field: type(field).__name__)
@given(value=VALUES)
def test_whatever_the_documentation_takes_is_taken(field: AskedField, value: Any) -> None:  # noqa: ANN401
    """Names and documents leave out more than JSON Schema can say: characters that nobody sees, numbers too large."""
    if Draft202012Validator(field.described()).is_valid(value):
        assert taken(field, value)


@pytest.mark.parametrize("name", SPANS)
def test_every_span_fits_what_javascript_and_databases_hold(name: str) -> None:
    span = SPANS[name]

    assert span.least < span.greatest
    assert span.greatest <= MAX_EXACT_INTEGER or name in {"bandwidth_bytes_per_second", "peak_flops_per_second"}


@pytest.mark.parametrize("value, read", [(1, 1), (1024, 1024), (3.0, 3), (1e3, 1000)])
def test_a_whole_number_becomes_an_int(value: float, read: int) -> None:
    assert (COUNT.read(value), type(COUNT.read(value))) == (read, int)


@pytest.mark.parametrize(
    "text, read", [("1", 1), ("0001", 1), ("1024", 1024), ("1e3", 1000), ("1.5E+1", 15), ("4.0", 4)]
)
def test_a_whole_number_is_read_from_digits_and_exponents(text: str, read: int) -> None:
    assert (COUNT.read_text(text), type(COUNT.read_text(text))) == (read, int)


@pytest.mark.parametrize("text", ["1.5", "1e-1", "1e999999", "-1e999999", "1e4", "1e", "e3", "1_0e2", " 1e2", "0x1e2"])
def test_what_is_no_whole_number_of_the_span_is_refused_however_it_is_spelled(text: str) -> None:
    with pytest.raises(MisreadError, match=r"^must be a whole number from 1 to 1,024$"):
        COUNT.read_text(text)


@given(st.integers(0, MAX_EXACT_INTEGER), st.integers(0, 15))
def test_an_exponent_is_exact_up_to_the_end_of_every_span(number: int, shift: int) -> None:
    digits = str(number).zfill(shift + 1)
    text = f"{digits[: len(digits) - shift]}.{digits[len(digits) - shift :] or '0'}e{shift}"

    assert WholeNumber(Span(0, MAX_EXACT_INTEGER)).read_text(text) == number


@pytest.mark.parametrize("text, read", [("1", 1), ("1.0", 1), ("0.25", 0.25), ("2.5e-1", 0.25), ("1E0", 1)])
def test_a_number_is_read_from_decimals_and_exponents(text: str, read: float) -> None:
    assert SHARE.read_text(text) == read


def test_a_refusal_says_what_would_be_taken_and_what_came() -> None:
    with pytest.raises(MisreadError, match=r"must be a whole number from 1 to 1,024, not a string"):
        COUNT.read("1")
    with pytest.raises(MisreadError, match=r"must be a number above 0 to 1, not true or false"):
        SHARE.read(True)
    with pytest.raises(MisreadError, match=r"must be one of auto, off"):
        Choice(["auto", "off"]).read("on")


def test_a_command_line_keeps_its_line_breaks() -> None:
    command = "vllm serve x \\\n\t--max-model-len 4096\r\n"

    assert CommandLine().read(command) == command
    assert not taken(CommandLine(), "vllm\0")


@pytest.mark.parametrize(
    "text, read",
    [
        ("2026-01-01T00:00:00+05:00", "2025-12-31T19:00:00Z"),
        ("2026-01-01t00:00:00z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.500000Z"),
    ],
)
def test_a_moment_is_kept_in_utc(text: str, read: str) -> None:
    assert Moment().read(text) == read


def test_a_list_is_split_at_commas() -> None:
    assert ListOf(COUNT).read_text("1,2,3") == [1, 2, 3]
    with pytest.raises(MisreadError):
        ListOf(COUNT).read_text("1," * 64 + "1")


def test_the_fields_are_marshmallows_too() -> None:
    schema = Schema.from_dict({"count": WholeNumber(Span(1, 2))})()

    assert schema.load({"count": 2.0}) == {"count": 2}
    with pytest.raises(ValidationError):
        schema.load({"count": "2"})
