"""The Dockerfile as a list of instructions, enough of its grammar for the tests to check and replay it."""

import json
import re
from typing import NamedTuple

from tests.tooling.repository import ROOT


class Instruction(NamedTuple):
    """One instruction and the build stage it belongs to, counted from 0."""

    stage: int
    name: str
    rest: str


def instructions() -> list[Instruction]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found: list[Instruction] = []
    stage = -1
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        name, rest = line.split(maxsplit=1)
        stage += name == "FROM"
        found.append(Instruction(stage, name, rest))
    return found


def named(name: str) -> list[Instruction]:
    return [each for each in instructions() if each.name == name]


def exec_form(rest: str) -> list[str]:
    """The words of a command in exec form; raises ValueError for the shell form, which would keep SIGTERM to itself."""
    words: list[str] = json.loads(rest[rest.index("[") :])
    return words


def environment() -> dict[str, str]:
    """What the last stage sets with ENV."""
    last = instructions()[-1].stage
    rests = [each.rest for each in named("ENV") if each.stage == last]
    return {name: value.strip('"') for rest in rests for name, value in re.findall(r'(\w+)=("[^"]*"|\S+)', rest)}
