"""How the value of a flag is read: from the text of a command line, or as an engine's log prints it."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from service.domain.commands.numbers import human_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,2})?", re.ASCII)
_GIB = 1 << 30
_SHOWN = 40
_TRUE, _FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})


class MisreadError(ValueError):
    """A value that its flag cannot have; the message completes `--flag …`."""


def count(value: Any) -> int:  # noqa: ANN401
    """A whole number."""
    if type(value) is int:
        return value
    text = str(value).strip()
    if not _WHOLE.fullmatch(text):
        raise MisreadError(f"needs a whole number, not {shown(value)}")
    return int(text)


def natural(value: Any) -> int:  # noqa: ANN401
    """A whole number of at least 0."""
    found = count(value)
    if found < 0:
        raise MisreadError(f"needs a number of at least 0, not {shown(value)}")
    return found


def human(value: Any) -> int:  # noqa: ANN401
    """A whole number, with or without a suffix."""
    if type(value) is int:
        return value
    found = human_count(str(value))
    if found is None:
        raise MisreadError(f"needs a number such as 8192, 8k or 8K, not {shown(value)}")
    return found


def number(value: Any) -> float:  # noqa: ANN401
    """A decimal; without a fraction it is a whole number, as in a question."""
    text = str(value).strip()
    if not _DECIMAL.fullmatch(text):
        raise MisreadError(f"needs a number, not {shown(value)}")
    found = float(text)
    return int(found) if found.is_integer() else found


def gib(value: Any) -> int:  # noqa: ANN401
    """GiB as bytes."""
    return int(Fraction(str(number(value))) * _GIB)


def text(value: Any) -> str:  # noqa: ANN401
    """As it is."""
    if not isinstance(value, str) or not value.strip():
        raise MisreadError(f"needs a name, not {shown(value)}")
    return value.strip()


def lower(value: Any) -> str:  # noqa: ANN401
    """A name in lower case."""
    return text(value).casefold()


def word(value: Any) -> str:  # noqa: ANN401
    """A name or a number in lower case."""
    return lower(str(value) if type(value) is int else value)


def counts(value: Any) -> list[int]:  # noqa: ANN401
    """Whole numbers, as a list or between commas."""
    return [count(part) for part in (value if isinstance(value, list) else str(value).strip("[] ").split(","))]


def flag(value: Any) -> bool:  # noqa: ANN401
    """A switch as logs and variables write it."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().casefold()
    if word not in _TRUE | _FALSE:
        raise MisreadError(f"needs true or false, not {shown(value)}")
    return word in _TRUE


def unless(value: Any) -> bool:  # noqa: ANN401
    """The opposite of a switch."""
    return not flag(value)


def shares(value: Any) -> list[float]:  # noqa: ANN401
    """Shares of devices, between commas or slashes."""
    parts = value if isinstance(value, list) else re.split(r"[,/]", str(value))
    found = [number(part) for part in parts]
    if any(part < 0 for part in found):
        raise MisreadError(f"needs shares of at least 0, not {shown(value)}")
    return found


def tensors(value: Any) -> list[str]:  # noqa: ANN401
    """Patterns of tensors that go to the host, each as `PATTERN=CPU`."""
    pairs = [part.partition("=") for part in str(value).split(",")]
    if any(not (pattern and device) for pattern, _, device in pairs):
        raise MisreadError(f"needs PATTERN=CPU, not {shown(value)}")
    if {device for _, _, device in pairs} != {"CPU"}:
        raise MisreadError(f"{shown(value)} puts weights on other devices, which is not modelled: only CPU is")
    return [pattern for pattern, _, _ in pairs]


def several(value: Any) -> str:  # noqa: ANN401
    """Any number of words, together."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def layers(value: Any) -> int:  # noqa: ANN401
    """Layers on a device; `all` and every negative number are all of them."""
    return -1 if str(value).strip().casefold() == "all" else max(-1, count(value))


def document(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """A JSON object."""
    if isinstance(value, dict):
        return value
    try:
        found = json.loads(str(value))
        # Half of a surrogate pair, repeated from a key, would make the whole answer unreadable for many.
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise MisreadError(f"needs a JSON object, not {shown(value)}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise MisreadError(f"needs a JSON object, not {shown(value)}")
    return found


def shown(value: object) -> str:
    """A value as a refusal repeats it."""
    whole = value if isinstance(value, str) else repr(value)
    return repr(whole[:_SHOWN])


def raw(value: Any) -> Any:  # noqa: ANN401
    """As it is, text or what a log prints; what it says is settled with other flags."""
    return value


READERS: Mapping[str, Callable[[Any], Any]] = {
    "raw": raw,
    "count": count,
    "natural": natural,
    "tensors": tensors,
    "human": human,
    "number": number,
    "gib": gib,
    "counts": counts,
    "text": text,
    "word": word,
    "lower": lower,
    "flag": flag,
    "unless": unless,
    "several": several,
    "shares": shares,
    "layers": layers,
    "keys": document,
    "object": document,
}
