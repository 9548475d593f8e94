"""A stand-in for the reader of logs: it takes `name=value` lines, and has the form of the service's."""

from collections.abc import Iterable
from typing import Any, NamedTuple

ENGINES = ("vllm", "sglang")


class Said(NamedTuple):
    value: Any
    line: int


class Refusal(NamedTuple):
    kind: str
    line: int


class LogReading(NamedTuple):
    engine: str | None
    version: str | None
    said: dict[str, Said]
    refusal: Refusal | None
    longest: int


def read(lines: Iterable[str]) -> LogReading:
    said: dict[str, Said] = {}
    longest = 0
    for number, line in enumerate(lines, 1):
        longest = max(longest, len(line))
        name, _, text = line.strip().partition("=")
        if text:
            said[name] = Said(int(text) if text.isdigit() else text, number)
    engine, version, refusal = (said.pop(name, None) for name in ("engine", "version", "refusal"))
    return LogReading(
        engine.value if engine else None,
        version.value if version else None,
        said,
        Refusal(refusal.value, refusal.line) if refusal else None,
        longest,
    )
