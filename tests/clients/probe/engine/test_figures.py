"""Numbers and metrics out of what engines say: what is there, or nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquote_probe.engine.figures import flag, gibibytes, number, number_format, share, whole
from kvquote_probe.engine.metrics import Sample, samples

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**300, 10**400),
    st.floats(),
    st.text(),
    st.lists(st.integers()),
)


WHOLE = {1: 1, 16.0: 16, "17": 17, "6239.0": 6239, 2**31: 2**31}
NOT_WHOLE = [2**31 + 1, 0, -1, 1.5, "1.5", "1e3", "٣", "1_000", " 5", "", "None", True, None, [1], math.nan, math.inf]
SHARES = {0.9: 0.9, "0.8": 0.8, 1: 1.0, "1e-1": 0.1}
NO_SHARES = [0, 1.01, "nan", "inf", True, "", None, -0.5]
FORMATS = {"torch.bfloat16": "bf16", "auto": "auto", "half": "fp16", "fp8_e4m3": "fp8_e4m3", "awq_marlin": "awq"}
NO_FORMATS = ["None", None, "/x", "a b", "", 16]


@pytest.mark.parametrize("text, found", WHOLE.items(), ids=map(repr, WHOLE))
def test_a_whole_number_is_taken(text: object, found: int) -> None:
    assert whole(text) == found


@pytest.mark.parametrize("text", [*NOT_WHOLE, "9" * 400], ids=lambda text: repr(text)[:20])
def test_nothing_else_is_a_whole_number(text: object) -> None:
    assert whole(text) is None


@pytest.mark.parametrize("text, found", SHARES.items(), ids=map(repr, SHARES))
def test_a_share_is_above_0_and_at_most_1(text: object, found: float) -> None:
    assert share(text) == found


@pytest.mark.parametrize("text", NO_SHARES, ids=repr)
def test_nothing_else_is_a_share(text: object) -> None:
    assert share(text) is None


@given(ANYTHING)
def test_whatever_is_given_a_number_is_finite_and_in_its_range(given_value: object) -> None:
    found = [whole(given_value), number(given_value), share(given_value), gibibytes(given_value)]

    assert all(one is None or (math.isfinite(one) and 0 < one <= 2**50) for one in found)


@pytest.mark.parametrize(
    "given_value, found", [("True", True), ("false", False), (False, False), ("None", None), (1, None), ("", None)]
)
def test_a_flag_is_one_as_python_prints_it(given_value: object, found: bool | None) -> None:
    assert flag(given_value) is found


@pytest.mark.parametrize("text, found", FORMATS.items(), ids=FORMATS)
def test_number_formats_are_spelt_as_the_service_does(text: str, found: str) -> None:
    assert number_format(text) == found


@pytest.mark.parametrize("text", NO_FORMATS, ids=repr)
def test_nothing_else_is_a_number_format(text: object) -> None:
    assert number_format(text) is None


@pytest.mark.parametrize(
    "line, found",
    [
        ("m 3", Sample("m", {}, 3.0)),
        ("m{} 3", Sample("m", {}, 3.0)),
        ('m{a="1",b="x, y}"} 3.5e2', Sample("m", {"a": "1", "b": "x, y}"}, 350.0)),
        ('m{ a = "1" } 3', None),
        ('m{a="1",} 3 1700000000000', Sample("m", {"a": "1"}, 3.0)),
        (r'm{a="C:\\x\"y\nz"} 3', Sample("m", {"a": 'C:\\x"y\nz'}, 3.0)),
        ('m{a="1} 3', None),
        ('m{a="1"}', None),
        ("m NaN", None),
        ("m +Inf", None),
        ("m three", None),
        ("m_total 3", None),
        ("# m 3", None),
    ],
)
def test_a_sample_is_read_or_it_is_none(line: str, found: Sample | None) -> None:
    assert samples(f"{line}\n", ("m",)) == ([found] if found else [])


def test_a_last_line_that_was_cut_off_is_no_sample() -> None:
    assert samples("m 12\nm 34", ("m",)) == [Sample("m", {}, 12.0)]


HOSTILE = ['m{a="1"', 'm{a="', "m 3", "m", 'm{a="1",', 'm{a="1"}', "m{"]


@pytest.mark.parametrize("line", HOSTILE)
@pytest.mark.parametrize("filling", [" ", "\\", '"', 'a="",', "9", "\t"], ids=repr)
def test_a_line_made_to_be_slow_is_not(line: str, filling: str) -> None:
    text = line + filling * (60_000 // len(filling)) + "\n"

    assert all(found.name == "m" for found in samples(text, ("m",)))


@given(st.text())
def test_no_page_breaks_the_reader(text: str) -> None:
    assert all(math.isfinite(found.value) for found in samples(text, ("m", "")))
