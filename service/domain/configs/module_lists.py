"""The lists of modules in a `quantization_config`: what stays in 16 bits, and what has a format of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from service.domain.architecture import FormatRule
from service.domain.configs.fields import Fields

_IGNORED = (
    "ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers", "llm_int8_skip_modules",
)  # fmt: skip
_CLASSES = frozenset({"Linear", "Conv1d", "Embedding", "LinearBase"})


class Group(NamedTuple):
    """A number format and the modules it is for: names, expressions, or the class of all linear ones."""

    format: str
    targets: tuple[str, ...]


def lists_modules(q: Fields) -> bool:
    """Whether the config has a list of what it leaves in 16 bits, be it empty."""
    inner = q.inner("quantization")
    return q.has(*_IGNORED) or (inner is not None and inner.has(*_IGNORED))


def listed(q: Fields) -> tuple[FormatRule, ...]:
    """The modules that the config leaves in 16 bits, in whatever list its method keeps them."""
    found = []
    for fields in (q, q.inner("quantization")):
        for name in _IGNORED if fields else ():
            pointer = f"{fields.pointer}/{name}" if fields else ""
            found += [FormatRule(text, None, pointer) for text in (fields.texts(name) if fields else ())]
    return tuple(found)


def grouped_rules(q: Fields, groups: list[Group]) -> tuple[FormatRule, ...]:
    """The modules that groups name one by one; those that name a class of modules are the rest."""
    pointer = f"{q.pointer}/config_groups"
    return tuple(
        FormatRule(target, group.format, pointer)
        for group in groups
        for target in group.targets
        if target not in _CLASSES
    )


def listed_formats(q: Fields, algorithms: Mapping[str, str]) -> Iterator[FormatRule]:
    """The table that says of each module by which algorithm it is stored."""
    table = q.inner("quantized_layers")
    for name in table.values if table else ():
        inner = table.inner(name) if table else None
        format_name = algorithms.get((inner.text("quant_algo") or "").upper()) if inner else None
        if table is None or format_name is None:
            raise q.refuse("quantized_layers", "It names an algorithm that no number format describes.")
        yield FormatRule(name, format_name, table.pointer)
