"""The table of an engine's flags: which release has which, and one parser for releases with the same."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from service.domain.commands.flags import FlagTable, Style
from service.domain.commands.numbers import human_count
from service.domain.commands.programs import started
from service.domain.commands.spelling import spelt
from service.domain.commands.words import split
from service.domain.engines.versions import parse
from service.domain.errors import CatalogFactError, QuoteError
from tests.domain.commands.command_cases import Case, cases, catalog

CASES = tuple(cases())
FACTS: dict[str, Any] = {
    "style": {"abbreviations": True, "underscores": True},
    "sets": [{"flags": ["--size", "-s"], "name": "block_tokens", "reads": "count"}],
    "refused": [{"flags": ["--enable-odd"], "takes": "boolean", "why": "odd"}],
    "ignored": {"value": ["--seed", "--old"], "many": ["--names"], "switch": ["--disable-log"]},
    "history": {"read": ["0.1.0", "0.2.0", "0.3.0"], "came": {"0.2.0": ["--size"]}, "went": {"0.3.0": ["--old"]}},
}


@pytest.fixture(scope="module")
def table() -> FlagTable:
    return FlagTable(FACTS, parse)


def given(table: FlagTable, line: str, release: str | None = None) -> list[tuple[str, Any]]:
    parsed = table.parser(release).parse(split(line)[0])
    return [(each.spelling, each.value) for each in parsed.given]


def test_flags_are_given_in_their_order_with_their_spelling(table: FlagTable) -> None:
    line = "x --se 1 -s 2 --size=3 --names a b --enable_odd --no-enable-odd --disable-odd --disable-log y"

    assert given(table, line) == [
        ("--seed", "1"),
        ("-s", "2"),
        ("--size", "3"),
        ("--names", ["a", "b"]),
        ("--enable-odd", True),
        ("--no-enable-odd", False),
        ("--disable-odd", False),
        ("--disable-log", True),
    ]
    assert table.parser(None).parse(split(line)[0]).others == ("x", "y")


def test_a_release_has_its_own_flags(table: FlagTable) -> None:
    assert given(table, "x --size 1 --old 2", "0.2.0") == [("--size", "1"), ("--old", "2")]
    assert given(table, "x --size 1 --old 2", "0.1.0") == [("--old", "2")]
    assert given(table, "x --size 1 --old 2", "0.3.1") == [("--size", "1")]


def test_flags_of_other_releases_have_to_be_written_out(table: FlagTable) -> None:
    both = table.parser("0.3.0", others=True)

    assert both.parse(split("x --ol 1")[0]).given == ()
    assert [each.spelling for each in both.parse(split("x --old 1 --se 2")[0]).given] == ["--old", "--seed"]
    assert given(table, "x --ol 1", "0.2.0") == [("--old", "1")]


def test_between_two_releases_that_were_read_a_flag_is_taken(table: FlagTable) -> None:
    assert given(table, "x --size 1", "0.1.5") == [("--size", "1")]
    assert given(table, "x --old 1", "0.2.9") == [("--old", "1")]


def test_a_flag_that_is_missing_says_where_it_is(table: FlagTable) -> None:
    assert "0.2.0 is the first release read that has it" in str(table.absent("-s", "0.1.0"))
    assert "0.3.0 is the first release read without it" in str(table.absent("--old", "0.4.0"))
    assert table.absent("--seed", "0.1.0") is None
    assert table.absent("--nothing", "0.1.0") is None


def test_a_parser_is_built_once_for_releases_with_the_same_flags(table: FlagTable) -> None:
    assert table.parser("0.2.0") is table.parser("0.2.0")
    assert table.parser("0.1.2") is table.parser("0.1.3")
    assert table.parser("0.1.0") is not table.parser("0.2.0")
    assert table.parser(None) is table.parser(None)


def test_releases_without_end_are_not_all_kept() -> None:
    came = {f"0.{minor}.0": [f"--since-{minor}"] for minor in range(2, 100)}
    facts = {"ignored": {"switch": [f"--since-{minor}" for minor in range(2, 100)]}}
    table = FlagTable({**facts, "history": {"read": ["0.1.0", *came], "came": came, "went": {}}}, parse)

    for minor in range(2, 100):
        assert given(table, f"x --since-{minor}", f"0.{minor}.0") == [(f"--since-{minor}", True)]
        assert table.absent(f"--since-{minor}", f"0.{minor - 1}.0") is not None


def test_a_row_that_is_no_flag_is_refused() -> None:
    with pytest.raises(CatalogFactError, match="A flag cannot be read"):
        FlagTable({**FACTS, "sets": [{"flags": 3}]}, parse)


def test_threads_share_a_parser(table: FlagTable) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: given(table, f"x --seed {n} --size {n}"), range(200)))

    assert found == [[("--seed", str(n)), ("--size", str(n))] for n in range(200)]


def test_a_flag_that_is_told_twice_is_refused() -> None:
    with pytest.raises(CatalogFactError, match="--seed is told twice"):
        FlagTable({**FACTS, "ignored": {"value": ["--seed"], "switch": ["--seed"]}}, parse)


@pytest.mark.parametrize(
    "text, number",
    [
        ("8192", 8192),
        ("32k", 32_000),
        ("32K", 32_768),
        ("25.6k", 25_600),
        ("1m", 10**6),
        ("1M", 2**20),
        ("2G", 2**31),
        ("25.6K", None),
        ("1.5", None),
        ("-1", None),
        ("k", None),
        ("1_000", None),
        ("", None),
    ],
)
def test_a_number_is_read_with_its_suffix(text: str, number: int | None) -> None:
    assert human_count(text) == number


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_short_way_reads_a_command_as_argparse_does(case: Case) -> None:
    try:
        start = started(case.command, case.beside.get("engine"))
        engine: Any = catalog().engine(start.engine)
        texts = [word.text for word in start.words]
        parser = engine.flags.parser(None)
        argparsed = parser._by_argparse(spelt(texts, engine.flags.style, parser.nested))
    except (QuoteError, AttributeError):
        return

    assert parser._at_once(spelt(texts, engine.flags.style, parser.nested)) in (None, argparsed)


def test_keys_are_put_together_as_the_object_that_they_spell() -> None:
    words = ["x", "--c.a.b", "1", "--c.a.d=true", "--size", "2", "--c.e", "f"]

    assert spelt(words, Style(nested=True), ["--c"]) == [
        "x",
        "--size",
        "2",
        "--c",
        '{"a": {"b": 1, "d": true}, "e": "f"}',
    ]
