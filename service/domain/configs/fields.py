"""Typed access to a published config.json, whose files agree on little: aliases, nulls, defaults and nested objects.

Every refusal is a ConfigError that names the field by its JSON pointer; no value of any type raises anything else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from service.domain.errors import ConfigError, Fault

MAX_LAYERS = 4096
MAX_SIZE = 1 << 31
MAX_NAMES = 1 << 17
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
_NOTHING: Mapping[str, Any] = {}
_NAMED = {int: "a number", list: "a list", dict: "an object"}


class Fields:
    """The fields of one config object.

    `defaults` are what the family's own code assumes where the file is silent; a null in the file is an answer and not
    a silence, as it is to that code. `asked` collects the names a reader looked at, so that an option that changes the
    cache and that no reader looked at can be refused.
    """

    __slots__ = ("asked", "defaults", "pointer", "values")

    def __init__(
        self, values: Mapping[str, Any], pointer: str = "/config", defaults: Mapping[str, Any] = _NOTHING
    ) -> None:
        """Wrap an object; `pointer` is where it stands in the question."""
        self.values = values
        self.pointer = pointer
        self.defaults = defaults
        self.asked: set[str] = set()

    def defaulting(self, defaults: Mapping[str, Any]) -> Fields:
        """The same fields with a family's defaults behind them; what is asked of either counts for both."""
        fields = Fields(self.values, self.pointer, defaults)
        fields.asked = self.asked
        return fields

    def refuse(self, name: str, detail: str) -> ConfigError:
        """Build the error for a field; the caller raises it."""
        return ConfigError(Fault(f"{self.pointer}/{name}", detail))

    def get(self, *names: str) -> Any:  # noqa: ANN401  # a config holds anything
        """The first of the names that is present and not null, else the default of the first that is absent."""
        return self._find(names)[1]

    def _find(self, names: tuple[str, ...]) -> tuple[str, Any]:
        values, silent = self.values, True
        self.asked.update(names)
        for name in names:
            if name in values:
                value = values[name]
                if value is not None:
                    return name, value
                silent = False
        if silent:
            for name in names:
                if name in self.defaults:
                    return name, self.defaults[name]
        return names[0], None

    def has(self, *names: str) -> bool:
        """Whether the file itself has any of the names, not null."""
        self.asked.update(names)
        return any(self.values.get(name) is not None for name in names)

    def integer(self, *names: str, default: int | None = None, least: int = 1, most: int = MAX_SIZE) -> int:
        """A whole number under the first present name; refuses a missing one without a default, and odd ranges.

        Names of one size that a file gives different numbers are refused: code takes now this one, now that.
        """
        value = self.optional(*names, least=least, most=most)
        if value is not None:
            self._refuse_another(names, value)
            return value
        if default is None:
            raise self.refuse(names[0], f"The config has no {names[0]}.")
        return default

    def _refuse_another(self, names: tuple[str, ...], value: int) -> None:
        for name in names if len(names) > 1 else ():
            another = self.values.get(name)
            if another is not None and another != value:
                first = next(name for name in names if self.values.get(name) is not None)
                raise self.refuse(name, f"{name} {shown(another)} and {first} {value} are names of one size.")

    def optional(self, *names: str, least: int = 1, most: int = MAX_SIZE) -> int | None:
        """A whole number, or None where the file and the defaults have none."""
        name, value = self._find(names)
        return None if value is None else self._whole(name, value, least, most)

    def integers(self, name: str, least: int = 0, most: int = MAX_SIZE) -> tuple[int, ...]:
        """A list of whole numbers, or none where absent; refuses one longer than any model has layers."""
        value = self.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or len(value) > MAX_LAYERS:
            raise self.refuse(name, f"{name} must be a list of at most {MAX_LAYERS} whole numbers.")
        return tuple(self._whole(name, item, least, most) for item in value)

    def per_layer(self, name: str, count: int, least: int = 0, most: int = MAX_SIZE) -> tuple[int, ...] | None:
        """A list of whole numbers, one for each of `count` layers (a longer list is cut), or None where absent."""
        if self.get(name) is None:
            return None
        numbers = self.integers(name, least, most)
        if len(numbers) < count:
            raise self.refuse(name, f"{name} must list one number for each of the {count} layers.")
        return numbers[:count]

    def layers(self, *names: str) -> int:
        """The number of decoder layers."""
        return self.integer(*(names or LAYERS), most=MAX_LAYERS)

    def flag(self, *names: str, default: bool) -> bool:
        """A boolean under the first present name; `default` where file and defaults are silent, false for a null."""
        name, value = self._find(names)
        if value is None:
            return default and not any(name in self.values for name in names)
        if not isinstance(value, bool):
            raise self.refuse(name, f"{name} must be true or false.")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number, or its default where absent or null."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_SIZE:
            raise self.refuse(name, f"{name} must be a number.")
        return float(value)

    def text(self, *names: str) -> str | None:
        """A string, or None where absent."""
        name, value = self._find(names)
        if value is not None and not isinstance(value, str):
            raise self.refuse(name, f"{name} must be a string.")
        return value

    def texts(self, name: str, most: int = MAX_NAMES) -> tuple[str, ...]:
        """A list of strings, or none where absent; refuses one longer than any model has modules."""
        value = self.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or len(value) > most or not all(isinstance(item, str) for item in value):
            raise self.refuse(name, f"{name} must be a list of at most {most} strings.")
        return tuple(value)

    def choices(self, name: str, known: tuple[str, ...], count: int) -> tuple[str, ...] | None:
        """A list of known words, one for each of `count` layers (a longer list is cut, as the engines do)."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or len(value) < count:
            raise self.refuse(name, f"{name} must list one word for each of the {count} layers.")
        for word in value[:count]:
            if word not in known:
                raise self.refuse(name, f"{name} has {shown(word)}; known are {', '.join(known)}.")
        return tuple(value[:count])

    def inner(self, *names: str) -> Fields | None:
        """The first of the names that is present, as fields of its own; refuses what is no object."""
        name, value = self._find(names)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.refuse(name, f"{name} must be an object.")
        return Fields(value, f"{self.pointer}/{name}")

    def _whole(self, name: str, value: Any, least: int, most: int) -> int:  # noqa: ANN401  # to be told apart here
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.refuse(name, f"{name} must be a whole number from {least} to {most}, not {shown(value)}.")
        return value


def shown(value: object) -> str:
    """A value as a refusal shows it: as JSON writes it, and short, whatever it is."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        if not text.isprintable():
            text = json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        # An integer of more digits than Python prints, a list in a list without end, and what JSON has not.
        text = _NAMED.get(type(value), "a value")
    return text if len(text) <= 40 else f"{text[:40]}…"  # noqa: PLR2004  # the length of a readable value
