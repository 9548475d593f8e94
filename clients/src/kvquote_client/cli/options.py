"""Options made from the tables of names, and how what is typed becomes a value."""

from __future__ import annotations

import argparse
import difflib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

# Short names for what is typed most; every name of the table is an option anyway.
_ALSO: Final = {
    "context_tokens": ("--context",),
    "batch_size": ("--batch",),
    "tensor_parallel": ("--tp",),
    "pipeline_parallel": ("--pp",),
    "data_parallel": ("--dp",),
}
_UNITS: Final = {
    **{unit: 1000**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
_SIZE: Final = re.compile(r"([0-9_.,]+(?:e[0-9]+)?)\s*([a-z]+)?", re.IGNORECASE)


class Parser(argparse.ArgumentParser):
    """An argparse parser that takes no abbreviations, which would change meaning as options are added."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - as argparse has them
        super().__init__(**{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """End with 2 and where to look."""
        self.exit(2, f"{self.prog}: {message}\nTry: {self.prog} --help\n")

    def refuse_unknown(self, words: Sequence[str], *, starts_engines: bool = False) -> None:
        """End with 2 where words were left over, naming the nearest option, or where an engine's command stands."""
        if words:
            known = [option for action in self._actions for option in action.option_strings]
            near = difflib.get_close_matches(words[0].partition("=")[0], known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            if starts_engines and not words[0].startswith("-"):
                hint = "; an engine's own command stands behind --"
            self.error(f"there is no {words[0]!r} here{hint}")


def add_table(parser: Parser, title: str, table: type, leave_out: Sequence[str] = ()) -> None:
    """Add an option for each name of the table, with the table's words as its help."""
    group = parser.add_argument_group(title)
    for name, hint in get_type_hints(table, include_extras=True).items():
        if name not in leave_out:
            kind, words = get_args(hint)
            options = (f"--{name.replace('_', '-')}", *_ALSO.get(name, ()))
            group.add_argument(*options, dest=name, default=None, help=words.replace("%", "%%"), **_how(name, kind))


def given(asked: argparse.Namespace, table: type) -> dict[str, Any]:
    """The names of the table that were given a value."""
    values = ((name, getattr(asked, name, None)) for name in table.__annotations__)
    return {name: value for name, value in values if value is not None}


def option_of(pointer: object) -> str:
    """What a problem points at, as the option that it is here; what is none stays as it is."""
    from kvquote_client.question import TrafficQuestion

    name = str(pointer or "").strip("/")
    return f"--{name.replace('_', '-')}" if name in TrafficQuestion.__annotations__ else name


def _how(name: str, kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a type, or several
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    if kind is Mapping or get_origin(kind) is Mapping:
        return {"type": document, "metavar": "JSON|FILE|-"}
    if get_origin(kind) is Sequence:
        (item,) = get_args(kind)
        if item is str:
            return {"type": names, "metavar": "NAME,NAME,…"}
        return {"type": _listed(_number(name, item)), "metavar": "N,N,…"}
    if kind in {int, float}:
        return {"type": _number(name, kind), "metavar": "BYTES" if name.endswith("_bytes") else "N"}
    return {"metavar": "NAME" if kind is str else "TEXT"}


def _number(name: str, kind: type) -> Callable[[str], float]:
    read = whole if kind is int else number
    return _sized(read) if name.endswith("_bytes") else read


def number(text: str) -> float:
    """`0.92`, `7e9`, `80,000,000`; whole where it can be, and always finite."""
    try:
        value = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return int(value) if value.is_integer() else value


def whole(text: str) -> int:
    """`8192`, `8,192`, `80e9`; never a fraction."""
    value = number(text)
    if not isinstance(value, int):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return value


def count(text: str) -> int:
    """A whole number of at least 1."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1")
    return value


def _sized(read: Callable[[str], float]) -> Callable[[str], float]:
    def size(text: str) -> float:
        matched = _SIZE.fullmatch(text.strip())
        unit = _UNITS.get((matched[2] or "B").lower()) if matched else None
        if matched is None or unit is None:
            raise argparse.ArgumentTypeError(f"{text!r} is no size; one looks like 80e9, 80GB or 74.5GiB")
        # Read as what it may come to: 74.5GiB is whole bytes though 74.5 is no whole number.
        return read(matched[1]) if unit == 1 else round(number(matched[1]) * unit)

    return size


def _listed(read: Callable[[str], float]) -> Callable[[str], list[float]]:
    return lambda text: [read(item) for item in text.split(",") if item.strip()]


def names(text: str) -> list[str]:
    """Names between commas."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing")
    return found


def document(text: str) -> dict[str, Any]:
    """A JSON object: typed, in a file, or from standard input."""
    try:
        said = text if text.lstrip().startswith("{") else _content(text)
        value = json.loads(said)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} holds no JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text[:60]!r} holds no JSON object")
    return value


def _content(name: str) -> str:
    if name != "-":
        return Path(name).read_text(encoding="utf-8-sig")
    if sys.stdin is None:  # whoever started this has closed it
        raise OSError("standard input is closed")
    return sys.stdin.read()
