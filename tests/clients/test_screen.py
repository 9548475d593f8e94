"""Drawing: shares of a bar, tables, and what a terminal can show."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvquote_client.cli.figures import duration, scaled, size, whole
from kvquote_client.cli.screen import Part, Screen, shares


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1e15) | st.integers(0, 2**60), max_size=12), st.integers(20, 200))
def test_a_bar_is_exactly_as_wide_as_asked_and_shows_whatever_is_there(amounts: list[float], width: int) -> None:
    cells = shares(amounts, width)

    assert sum(cells) == (width if sum(amounts) > 0 else 0)
    assert [count > 0 for count in cells] == [amount > 0 for amount in amounts]


def test_a_bar_is_drawn_to_scale() -> None:
    assert shares([50, 25, 25], 40) == [20, 10, 10]
    assert shares([1, 1, 1], 20) == [7, 7, 6]


def test_a_bar_keeps_to_ascii_where_there_is_no_more() -> None:
    parts = [Part(1, "█", 34), Part(1, "▓", 32), Part(2, "·", 90)]

    assert Screen(unicode=False).bar(parts) == "#" * 19 + "=" * 19 + "." * 38
    assert Screen(columns=24).bar(parts) == "█" * 5 + "▓" * 5 + "·" * 10


def test_figures_stand_to_the_right_and_names_to_the_left() -> None:
    assert Screen().table(["name", "count"], [["a", "1"], ["longer", "1,000"], ["b", "-"]]) == [
        "name    count",
        "------  -----",
        "a           1",
        "longer  1,000",
        "b           -",
    ]


def test_wide_characters_take_two_columns() -> None:
    lines = Screen().table(["name", "n"], [["通义千问", "1"], ["é", "2"]])

    assert lines[2:] == ["通义千问  1", "é         2"]


def test_a_table_without_rows_has_its_heading() -> None:
    assert Screen().table(["a", "b"], []) == ["a  b", "-  -"]


@pytest.mark.parametrize(
    "environ, watched, colours",
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals_that_were_not_told_otherwise(
    environ: dict[str, str], watched: bool, colours: bool
) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return watched

    assert Screen.of(Terminal(), environ).colours is colours


@pytest.mark.parametrize("encoding, able", [("utf-8", True), ("ascii", False), ("latin-1", False), ("nonsense", False)])
def test_characters_are_those_that_the_encoding_has(encoding: str, able: bool) -> None:
    class Stream(io.StringIO):
        pass

    Stream.encoding = encoding

    assert Screen.of(Stream()).unicode is able


def test_sizes_are_written_in_powers_of_1024() -> None:
    counts = (None, 0, 1023, 1024, 85_029_615_043, 2**60, -2048)

    assert [size(count) for count in counts] == [
        *("-", "0 B", "1,023 B", "1.00 KiB", "79.19 GiB", "1,024.00 PiB", "-2.00 KiB")
    ]


def test_counts_are_written_in_thousands_and_in_their_unit() -> None:
    assert [whole(None), whole(448_032), whole(0)] == ["-", "448,032", "0"]
    assert [scaled(None, 1), scaled(8_030_261_248, 1e9), scaled(989.4e12, 1e12)] == ["-", "8", "989.4"]


def test_times_have_three_figures_and_no_exponent() -> None:
    seconds = (None, 0, 9.5e-07, 0.00095, 0.0272, 0.9996, 1, 61.5, 4000)

    assert [duration(each) for each in seconds] == [
        *("-", "0.00 us", "0.95 us", "950 us", "27.2 ms", "1,000 ms", "1.00 s", "61.5 s", "4,000 s")
    ]
