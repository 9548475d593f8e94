"""Frozen answers: what is in tests/golden was once looked at and found right, and changes only on purpose."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


class Golden:
    """Compare an answer with its frozen text, or write the text when `make golden` asks for it.

    Texts are compared, not values: the order of keys and 1 against 1.0 are part of an answer.
    """

    def __init__(self, *, update: bool, folder: Path = FOLDER) -> None:
        self._update = update
        self._folder = folder

    def __call__(self, name: str, answer: object) -> None:
        path = self._folder / f"{name}.json"
        actual = json.dumps(answer, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else ""

        assert actual == expected, f"differs from tests/golden/{name}.json; if that is meant, run `make golden`"
