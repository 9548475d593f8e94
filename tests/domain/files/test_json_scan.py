"""Objects and lists are read part after part, and what is no JSON is refused where it stands."""

from collections.abc import Iterator
from typing import Any

import pytest

from service.domain.errors import ValidationError
from service.domain.files.json_scan import Scanner


def items(text: bytes) -> Iterator[object]:
    scanner = Scanner(text, "/list")
    for _ in scanner.items():
        yield scanner.value("0")
    scanner.end()


@pytest.mark.parametrize(
    "text, found",
    [
        (b"[]", []),
        (b" [ ] ", []),
        (b"[1]", [1]),
        (b'[1, "a,]" ,{"b": [2]}, [3,4]]\n', [1, "a,]", {"b": [2]}, [3, 4]]),
    ],
)
def test_a_list_is_read_item_after_item(text: bytes, found: list[object]) -> None:
    assert list(items(text)) == found


def test_items_are_numbered() -> None:
    scanner = Scanner(b"[7, 8, 9]", "")

    assert [(index, scanner.value(str(index))) for index in scanner.items()] == [(0, 7), (1, 8), (2, 9)]


@pytest.mark.parametrize("text", [b"", b"{}", b"[", b"[1", b"[1 2]", b"[1,]", b"[,1]", b"[1]]", b"[1] 2"])
def test_what_is_no_list_is_refused(text: bytes) -> None:
    with pytest.raises(ValidationError) as caught:
        list(items(text))

    assert caught.value.faults[0].pointer.startswith("/list")


def test_a_place_is_the_next_sign_and_how_far_it_is() -> None:
    scanner = Scanner(b'{ "a" :  [1], "b": 2 }  ', "")
    places = []
    for name in scanner.members():
        places.append(scanner.place())
        scanner.value(name)

    assert places == [(9, "["), (19, "2")]
    assert scanner.place() == (24, "")


@pytest.mark.parametrize(
    "text, words",
    [
        (b'{"a": [1,}', "byte 10, "),
        (b'{"a" 1}', "where : should be, byte 6 is another"),
        (b'{"a": 1', "where , should be, the text ends"),
        (b'{"a": ' + b"[" * 200_000, "nested too deep"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "a number of thousands of digits"),
    ],
)
def test_a_refusal_says_what_stands_in_the_way(text: bytes, words: str) -> None:
    scanner = Scanner(text, "/header")
    with pytest.raises(ValidationError, match=words) as caught:
        [scanner.value(name) for name in scanner.members()]

    assert caught.value.faults[0].pointer.startswith("/header")


def test_names_stand_in_a_pointer_as_json_pointers_write_them() -> None:
    assert Scanner(b"{}", "/x").at("a/b~c") == "/x/a~1b~0c"


def test_values_are_those_of_a_text_that_is_read_whole() -> None:
    scanner = Scanner(b'{"a": 1.5, "b": null, "c": "d"}', "")
    found: dict[str, Any] = {name: scanner.value(name) for name in scanner.members()}

    assert found == {"a": 1.5, "b": None, "c": "d"}
