"""Uploads are parsed by another library than questions: to the same values, and refused in the same words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api import quick_json
from service.api.bodies import parse
from service.api.problems import ProblemError
from service.api.quick_json import parse_quickly, write_sorted
from service.api.replies import encode_sorted

LEVELS = 6
NUMERALS = [
    *("0", "-0", "-0.0", "1.0", "1E5", "0.1e-7", "5e-324", "1e-400", "1e400", "-1e400", "1.7976931348623157e308"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551615"),
    *("18446744073709551616", "1" + "0" * 30, "-1" + "0" * 400, "9" * 4400, "123456789012345678.0", "1e22"),
    *("01", "1.", ".5", "+1", "1e", "--1", "0x10", "1_000", "NaN", "Infinity", "-Infinity", "nan"),
]
TEXTS = [
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"a\x00b"', b'"a\nb"', b'"\xff"'),
    *(b'"\xed\xa0\x80"', b'"\x7f"', b'"\\x41"', b'"\\/"', b"'a'", b'"', b'"a', b'":8000"', b'"a\\":b"'),
]
BODIES = [
    *(b"", b" ", b"null", b"tru", b"[1,]", b'{"a":1,}', b"{} x", b"[1] [2]", b'{"a" 1}', b"{1:2}", b"\xef\xbb\xbf{}"),
    *(b'{"a":1,"a":2}', b'{"a":1,"a":1}', b'[{"a":{"b":1,"c":2,"b":3}}]', b'{"a":1,"\\u0061":2}', b'{"":1,"":2}'),
    *(b'{"a" :1,"a"\t:2}', b'{"a"\n:":","a"\r:2}', b'{":":1,":":2}', b'{"a":":","a":2}', b'{"a\\":":1,"a\\":":2}'),
    *(b'{"a":1,"a":2,"b":":"}', b'{"a":{"b":1},"a":{"b":1}}', b"[" * LEVELS + b"]" * LEVELS, b"[" * 7 + b"]" * 7),
    *(b'{"a":' * 7 + b"1" + b"}" * 7, b"[" * 5000, b"[" * 1500 + b"]" * 1500, b"/*a*/{}", b"\x0c{}", b"{}\x0b"),
    json.dumps({"a": 1}).encode("utf-16"),
]


def outcome(read: Any, body: bytes) -> tuple[str, str]:  # noqa: ANN401
    try:
        # Unlike equality, what Python shows of a value tells 1 from true and from 1.0.
        return "value", repr(read(body, LEVELS))
    except ProblemError as error:
        return error.kind.name, error.detail


def alike(body: bytes) -> bool:
    return outcome(parse_quickly, body) == outcome(parse, body)


@pytest.mark.parametrize("numeral", NUMERALS, ids=lambda numeral: numeral[:24])
def test_numbers_are_read_alike(numeral: str) -> None:
    assert alike(numeral.encode())
    assert alike(f'{{"a":[{numeral}]}}'.encode())


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_read_alike(text: bytes) -> None:
    assert alike(b"[" + text + b"]")
    assert alike(b"{" + text + b":1}")


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies_are_read_or_refused_alike(body: bytes) -> None:
    assert alike(body)


def test_a_name_given_twice_is_refused_however_deep() -> None:
    with pytest.raises(ProblemError) as caught:
        parse_quickly(b'{"items":[{"id":"x","values":{"seconds":1,"seconds":2}}]}', LEVELS)

    assert caught.value.kind.name == "duplicate-key"


names = st.text(max_size=3) | st.sampled_from(["a", ":", 'a":', " :"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(names, inner),
)


@given(values, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_whatever_is_written_is_read_alike(value: object, ensure_ascii: bool, indent: int | str | None) -> None:
    body = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent).encode(errors="surrogatepass")

    assert alike(body)


@given(st.lists(st.sampled_from([b'"a"', b'"b"', b":", b",", b"{", b"}", b"[", b"]", b"1", b" ", b'":"', b"1e30"])))
def test_whatever_is_not_json_is_refused_alike(words: list[bytes]) -> None:
    assert alike(b"".join(words))


FLOATS = [0.0, -0.0, 1e-5, 9.9e-5, 1e-4, 0.1 + 0.2, 1e15, 9999999999999998.0, 1e16, 1e17, 1.5e22, 1e-7, 5e-324, 1.5e300]


@pytest.mark.parametrize("number", [*FLOATS, 2**53, 2**63, 2**64, -(2**63) - 1, 10**30, True, None])
def test_numbers_are_written_alike(number: float | None) -> None:
    assert write_sorted({"a": [{"b": number}]}) == encode_sorted({"a": [{"b": number}]})


@given(st.dictionaries(names, values))
def test_whatever_may_be_stored_is_written_alike(value: dict[str, Any]) -> None:
    try:
        expected = encode_sorted(value)
    except ValueError:
        # Infinity and NaN, which no row holds.
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_sorted(value)
    else:
        assert write_sorted(value) == expected


def test_names_are_sorted_as_they_were() -> None:
    names = ["é", "z", "\U0001f600", "\uffff", "a", "Z", "ab", "a\u0301", ""]

    assert write_sorted(dict.fromkeys(names, 1)) == encode_sorted(dict.fromkeys(names, 1))


def test_a_usual_row_is_not_left_to_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(quick_json, "encode_sorted")

    assert write_sorted({"b": {"seconds": 0.0125}, "a": 2900000000000}) == '{"a":2900000000000,"b":{"seconds":0.0125}}'


def test_what_is_plain_is_not_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(quick_json, "parse")
    rows = {"items": [{"gpu": {"name": "H100"}, "measured_at": "2026-11-01T10:00:00Z", "values": {"seconds": 1e-6}}]}

    assert parse_quickly(json.dumps(rows).encode(), LEVELS) == rows
