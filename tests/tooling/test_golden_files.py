"""The helper behind the frozen answers."""

from pathlib import Path

import pytest

from tests.golden_files import Golden


def test_an_answer_that_is_frozen_passes(tmp_path: Path) -> None:
    Golden(update=True, folder=tmp_path)("fit/one", {"b": 1, "a": [2.5, None]})

    Golden(update=False, folder=tmp_path)("fit/one", {"b": 1, "a": [2.5, None]})


@pytest.mark.parametrize(
    "other", [{"a": 1, "b": 3}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}], ids=["value", "order", "type"]
)
def test_an_answer_that_differs_fails_and_names_the_command(tmp_path: Path, other: dict[str, float]) -> None:
    Golden(update=True, folder=tmp_path)("fit", {"a": 1, "b": 2})

    with pytest.raises(AssertionError, match="make golden"):
        Golden(update=False, folder=tmp_path)("fit", other)


def test_an_answer_that_was_never_frozen_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="make golden"):
        Golden(update=False, folder=tmp_path)("fit", {})
