"""Words as a shell makes them, quotes, escapes and operators included."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.commands.words import MOST_WORDS, Word, split
from service.domain.errors import ValidationError


def texts(line: str) -> list[list[str]]:
    return [[word.text for word in words] for words in split(line)]


@pytest.mark.parametrize(
    "line, words",
    [
        ("a b\tc", [["a", "b", "c"]]),
        ("a 'b c' \"d e\"f", [["a", "b c", "d ef"]]),
        (r"a\ b \"c", [["a b", '"c']]),
        ('"a\\"b\\\\c\\n"', [['a"b\\c\\n']]),
        ("a \\\n b", [["a", "b"]]),
        ("a\\\nb", [["ab"]]),
        ("a \\\r\n b\r\n", [["a", "b"]]),
        ("a; b && c || d & e | f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a ';' '&&'", [["a", ";", "&&"]]),
        ("a > out 2>&1 < in b &> log", [["a", "b"]]),
        ("a 2>log b2>log", [["a", "b2"]]),
        ("# nothing\na # b\nc#d", [["a"], ["c#d"]]),
        ("(a b) ; { c", [["a", "b"], ["{", "c"]]),
        ("''", [[""]]),
        ("  ", []),
        ("a b \\", [["a", "b"]]),
        ("a b \\\n  ", [["a", "b"]]),
        ("a <<E -x; b\n$c 'd\nE\nf", [["a", "-x"], ["b"], ["f"]]),
        ("a <<-'E E'\nb\n\tE E\n", [["a"]]),
        ("a <b> --c <d.e f>", [["a", "<b>", "--c", "<d.e f>"]]),
        ("a <b >c <d>>e", [["a"]]),
    ],
)
def test_a_line_is_split_as_a_shell_does(line: str, words: list[list[str]]) -> None:
    assert texts(line) == words


@pytest.mark.parametrize(
    "line, expanded",
    [
        ("$A", ("$A",)),
        ("x${A:-b}y", ("${A:-b}",)),
        ('"$A and $(b c)"', ("$A", "$(b c)")),
        ("`a b`", ("`a b`",)),
        ("'$A'", ()),
        (r"\$A", ()),
        (r'"\$A"', ()),
        ("$", ()),
        ("<a b>", ("<a b>",)),
        ("x=<a>", ("<a>",)),
    ],
)
def test_what_a_shell_would_put_in_is_noted(line: str, expanded: tuple[str, ...]) -> None:
    assert split(line)[0][0].expanded == expanded


def test_known_variables_are_put_in() -> None:
    assert Word("$A-${B}-$C", ("$A", "${B}", "$C")).known({"A": "1", "B": "2"}) == Word("1-2-$C", ("$C",))


@pytest.mark.parametrize("line, after", [("a && b", "&&"), ("a || b", "||"), ("a; b", ";"), ("a\n\nb", "\n")])
def test_what_stands_between_commands_is_kept(line: str, after: str) -> None:
    assert [command.after for command in split(line)] == ["", after]


def test_a_here_document_belongs_to_its_command() -> None:
    first, second = split("a <<X <<'Y'; b <<-Z\n1\nX\n2\n3\nY\n\t4\n\tZ\n")
    assert (first.document, second.document) == ("2\n3", "\t4")


def test_an_array_is_one_word_with_items() -> None:
    (word,) = split("A=(b 'c d' # e\n $f)")[0]
    assert (word.text, word.items) == ("A=", (Word("b"), Word("c d"), Word("$f", ("$f",), bare=True)))


def test_a_variable_alone_is_split_unless_it_is_quoted() -> None:
    assert [word.bare for word in split('$A "$A" x$A $A$B ${A} $(b)')[0]] == [True, False, False, False, True, True]


@pytest.mark.parametrize(
    "text, variables, known",
    [
        ('"$AB-$A"', {"A": "1"}, "$AB-1"),
        ('"$A/$AB"', {"A": "1", "AB": "2"}, "1/2"),
        ("${A:-b}${C-d}", {"A": "1"}, "1${C-d}"),
        ("${A:-b}", {"A": ""}, "${A:-b}"),
        ("${A:+b}", {"A": "1"}, "${A:+b}"),
    ],
)
def test_each_variable_is_put_in_where_it_stands(text: str, variables: dict[str, str], known: str) -> None:
    assert split(text)[0][0].known(variables).text == known


@pytest.mark.parametrize(
    "line, words",
    [
        (r"a -m D:\x\y.z", ["a", "-m", r"D:\x\y.z"]),
        (r'a "D:\x y" b\ c', ["a", r"D:\x y", "b c"]),
    ],
)
def test_backslashes_separate_folders_on_windows(line: str, words: list[str]) -> None:
    assert [word.text for word in split(line, windows=True)[0]] == words


@pytest.mark.parametrize("line", ["a 'b", 'a "b', "a `b", "cat <<EOF\nEO", "cat <<", "A=(b"])
def test_what_is_left_open_is_refused(line: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        split(line)
    assert refusal.value.faults[0].pointer == "/command"


def test_more_words_than_are_read_are_refused() -> None:
    assert len(split("a " * MOST_WORDS)[0]) == MOST_WORDS
    for line in ("a " * (MOST_WORDS + 1), "a;" * (MOST_WORDS + 1)):
        with pytest.raises(ValidationError, match="more than the 1,000 words"):
            split(line)


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=8))
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    assert texts(shlex.join(words)) == [words]
    assert not any(word.expanded for word in split(shlex.join(words))[0])
