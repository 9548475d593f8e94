"""Measurements whose setup is an engine's command line, as rows that have the fields it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.commands import hear
from service.domain.errors import Fault, NotSupported, QuoteError
from service.domain.private_words import private_in_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.question import Catalog

_OF_SOFTWARE = ("engine", "engine_version")


def command_of(row: Mapping[str, Any]) -> str | None:
    """The command that the row's engine was started with; None where it tells none."""
    found: str | None = (row.get("setup") or {}).get("command")
    return found


def release(version: str) -> str:
    """The release of an engine's own word for it, such as v0.19.0 or 0.19.0+cu128."""
    return version.removeprefix("v").partition("+")[0]


def spelled_out(row: Mapping[str, Any], catalog: Catalog) -> Mapping[str, Any]:
    """The row with what its command says in place of the command, read as a question's is.

    Raises QuoteError for what is not understood or contradicts the fields beside it.
    """
    if command_of(row) is None:
        return row
    software = dict(row.get("software") or {})
    asked = {**_engine_of(software), **row["setup"]}
    read = hear(asked, catalog)
    if read.fitted:
        detail = f"{read.fitted} leaves the length to the engine: give the number that it chose."
        raise NotSupported(Fault("/command", detail))
    heard = dict(read.asked)
    told = {name: heard.pop(name) for name in _OF_SOFTWARE if heard.get(name)}
    # What the engine itself said of its release is kept to the letter.
    return {**row, "setup": heard, "software": {**told, **{n: word for n, word in software.items() if word}}}


def without_command(row: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """The row with the fields that its command stands for, none of them private; without it where it says nothing."""
    rest = {name: value for name, value in row["setup"].items() if name != "command"}
    try:
        heard = spelled_out(row, catalog)
    except QuoteError:
        return {**row, "setup": rest}
    told = {part: {n: v for n, v in heard[part].items() if not _is_private(v)} for part in ("setup", "software")}
    return {**row, "setup": {**told["setup"], **rest}, "software": told["software"]}


def _is_private(value: object) -> bool:
    return isinstance(value, str) and private_in_command(value) is not None


def _engine_of(software: Mapping[str, Any]) -> dict[str, str]:
    """Engine and release as a question has them."""
    engine, version = software.get("engine"), software.get("engine_version")
    asked = {} if not engine else {"engine": engine.casefold()}
    return asked if not version else {**asked, "engine_version": release(version)}
