"""The release that a script installs before it starts an engine, as by `pip install vllm==0.19.0`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.domain.commands.words import Word

_PACKAGES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "tensorrt-llm", "tensorrt_llm": "tensorrt-llm"}
# PEP 508, or as uvx takes a tool: a name, extras, and an exact version, whose local part says how a wheel was built
# and no more.
_PIN = re.compile(
    rf"(?:--[a-z-]+=)?({'|'.join(_PACKAGES)})(?:\[[\w,\s-]*\])?(?:\s*={{2,3}}\s*|@)v?"
    r"(\d+(?:\.\d+)*(?:\.?(?:post|rc|dev)\d+)*)(?:\+[\w.]+)?",
    re.ASCII,
)


class Pin(NamedTuple):
    """A release, and the words that say so."""

    version: str
    said_by: str


def pinned(engine: str, words: Iterable[Word]) -> Pin | None:
    """The last exact release of the engine's package among the words; ranges and wildcards say no release."""
    last = None
    for word in words:
        found = _PIN.fullmatch(word.text) if "=" in word.text or "@" in word.text else None
        if found and _PACKAGES[found[1]] == engine:
            last = Pin(found[2], f"{found[1]}{'@' if '@' in word.text else '=='}{found[2]}")
    return last
