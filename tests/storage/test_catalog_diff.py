import pytest

from service.storage.catalog_diff import differences


@pytest.mark.parametrize(
    "before, after, lines",
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 -> 2"]),
        ({"a": 1}, {"a": 1.0}, ["a: 1 -> 1.0"]),
        ({"a": 1}, {"a": True}, ["a: 1 -> true"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}, ["a.b: 1 -> 3"]),
        ({}, {"a": None}, ["a: (none) -> null"]),
        ({"a": "x"}, {}, ['a: "x" -> (none)']),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a[1]: 2 -> 3"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a: [1] -> [1,2]"]),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, ["a[0].b: 1 -> 2"]),
        ({"a": {"b": 1}}, {"a": 1}, ['a: {"b":1} -> 1']),
        ({"b": 1, "a": 1}, {"a": 2, "c": 1}, ["a: 1 -> 2", "c: (none) -> 1", "b: 1 -> (none)"]),
    ],
)
def test_each_field_that_differs_is_a_line(before: object, after: object, lines: list[str]) -> None:
    assert list(differences(before, after)) == lines


def test_a_long_value_is_cut() -> None:
    (line,) = differences({"a": "x" * 1000}, {"a": "y"})

    assert line.endswith('… -> "y"')
    assert len(line) < 80
