from pathlib import Path

import pytest

from service.storage.catalog_yaml import CatalogYamlError, read_yaml


def read(tmp_path: Path, text: str) -> dict[str, object]:
    (tmp_path / "entry.yaml").write_text(text, "utf-8")
    return read_yaml(tmp_path / "entry.yaml")


@pytest.mark.parametrize(
    "written, meant",
    [
        ("3.35e12", 3.35e12),
        ("2e3", 2000.0),
        ("1.5", 1.5),
        ("-7", -7),
        ("80_000_000_000", 80_000_000_000),
        ("010", "010"),
        ("1:30", "1:30"),
        ("true", True),
        ("no", "no"),
        ("on", "on"),
        ("none", "none"),
        ("null", None),
        ("~", None),
        ("", None),
        ("2026-11-29", "2026-11-29"),
        ("1.2.3", "1.2.3"),
        (".inf", ".inf"),
        ("é", "é"),
        ("'12'", "12"),
    ],
)
def test_a_value_means_what_it_looks_like(tmp_path: Path, written: str, meant: object) -> None:
    read_back = read(tmp_path, f"value: {written}\n")["value"]

    assert read_back == meant
    assert type(read_back) is type(meant)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("a: 1\na: 2\n", "line 2: the key 'a' is there twice"),
        ("deep:\n  - {b: 1, b: 2}\n", "line 2: the key 'b' is there twice"),
        ("a: [1\n", "line 2: "),
        ("- 1\n", "holds no mapping"),
        ("", "holds no mapping"),
        ("a: 1\n---\nb: 2\n", "line 2: "),
        ("a: !!python/object:os.system x\n", "line 1: could not determine a constructor"),
        ("[1]: 2\n", "line 1: a key is no text"),
        ("1: 2\n", "line 1: a key is no text"),
        ("a: \x07\n", "control characters"),
        ("a: &a [*a]\n", "line 1: a value holds itself"),
        ("b: 1\na: &a {b: [*a]}\n", "line 2: a value holds itself"),
        ("&a b: &b {c: &c [*b]}\n", "line 1: a value holds itself"),
        (f"a: {'[' * 500}{']' * 500}\n", "is nested too deeply"),
        (f"a: {'[' * 30_000}\n", "line 1: exceeded maximum nesting depth"),
        ("a: !!binary aGk=\n", "line 1: could not determine a constructor"),
        ("a: !!timestamp 2026-01-01\n", "line 1: could not determine a constructor"),
        ("a: !!set {b}\n", "line 1: could not determine a constructor"),
        ("a: !!bool maybe\n", "a tag does not fit its value"),
        ("a: !!int ''\n", "a tag does not fit its value"),
        (f"a: {'1' * 5000}\n", "Exceeds the limit"),
    ],
)
def test_a_file_that_says_nothing_definite_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(CatalogYamlError) as caught:
        read(tmp_path, text)

    assert complaint in str(caught.value)


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "entry.yaml").write_bytes(b"name: caf\xe9\n")

    with pytest.raises(CatalogYamlError):
        read_yaml(tmp_path / "entry.yaml")


def test_one_value_may_stand_in_two_places(tmp_path: Path) -> None:
    assert read(tmp_path, "a: &a [1]\nb: *a\n") == {"a": [1], "b": [1]}
