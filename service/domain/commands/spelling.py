"""Words as an engine's parser takes them: underscores for dashes, levels joined to -O, keys of JSON one by one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from service.domain.commands.numbers import human_count
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from service.domain.commands.flags import Style

_LEVEL = re.compile(r"-O=?(\d)")
_DEEPEST = 8


def spelt(words: Sequence[str], style: Style, nested: Collection[str]) -> list[str]:
    """The words with every flag in its own spelling; raises ValidationError for keys that have no value."""
    found = list(map(_dashed, words)) if style.underscores else list(words)
    line = " ".join(found)
    if style.levels and "-O" in line:
        found = _levelled(found)
    return _joined(found, nested) if style.nested and "." in line else found


def _dashed(word: str) -> str:
    """`--max_model_len=8k` as `--max-model-len=8k`; values and keys of JSON keep theirs."""
    if not word.startswith("--") or "_" not in word:
        return word
    flag, equals, value = word.partition("=")
    name, dot, keys = flag.partition(".")
    return f"{name.replace('_', '-')}{dot}{keys}{equals}{value}"


def _levelled(words: list[str]) -> list[str]:
    found: list[str] = []
    for word in words:
        level = _LEVEL.fullmatch(word)
        found += ["-O", level[1]] if level else [word]
    return found


def _joined(words: list[str], nested: Collection[str]) -> list[str]:
    """`--config.key value` of one flag put together as its JSON object."""
    if not any(word.startswith("-") and "." in word for word in words):
        return words
    left: list[str] = []
    objects: dict[str, dict[str, Any]] = {}
    at = 0
    while at < len(words):
        word = words[at]
        flag, equals, value = word.partition("=")
        name, dot, keys = flag.partition(".")
        at += 1
        if not (dot and name in nested):
            left.append(word)
            continue
        if not equals:
            if at == len(words):
                raise ValidationError(Fault("/command", f"{flag[:80]} has no value."))
            value = words[at]
            at += 1
        _put(objects.setdefault(name, {}), keys, value)
    for name, found in objects.items():
        left += [name, json.dumps(found)]
    return left


def _put(found: dict[str, Any], keys: str, text: str) -> None:
    path = keys.removesuffix("+").split(".")
    if len(path) > _DEEPEST or not all(path):
        raise ValidationError(Fault("/command", f"The key {keys[:80]!r} cannot be read."))
    value: Any = text.split(",") if keys.endswith("+") else _value(text)
    for key in path[:-1]:
        inner = found.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ValidationError(Fault("/command", f"The key {keys[:80]!r} lies within a value that is no object."))
        found = inner
    found[path[-1]] = value


def _value(text: str) -> Any:  # noqa: ANN401  # whatever JSON holds
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        number = human_count(text)
        return text if number is None else number
