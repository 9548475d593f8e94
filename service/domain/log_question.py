"""The question that a start-up log implies: what it says of the engine's settings, by the names of a question.

Only settings are taken, never what the engine measured: the quote is to be compared with that.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.commands import understand
from service.domain.commands.models import pointed, settle_weights
from service.domain.commands.repositories import file_type, typed_file
from service.domain.commands.scaling import NAMES as _SCALED
from service.domain.commands.scaling import rescaled_model
from service.domain.commands.states import TYPE as _STATE_TYPE
from service.domain.errors import Fault, QuoteError
from service.domain.shared_names import card_named
from service.domain.spans import SPANS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.commands.meaning import Understood
    from service.domain.engines import ServingEngine
    from service.domain.logs import LogReading
    from service.domain.naming import NamedModel
    from service.domain.question import Catalog

_LAYOUT = ("tensor_parallel", "pipeline_parallel", "data_parallel")
_RESOLVED = {
    "vllm": (
        *(*_LAYOUT, "memory_utilization", "max_batched_tokens", "max_sequences_limit", "memory_bytes", "gpu"),
        "sampler_backend",
    ),
    # The printed number of running requests is a formula's, and changes what the fraction of memory would be.
    "sglang": (*_LAYOUT, "memory_utilization", "max_batched_tokens"),
    "tensorrt-llm": ("memory_utilization", "max_batched_tokens", "max_sequences_limit", "block_tokens", "memory_bytes"),
    "llama.cpp": ("gpu", "gpu_layers", "parallel_slots", "attention_backend"),
}
"""What lines beside the printed settings say of settings, by engine."""

_CONTEXT = ("context_limit_tokens", "concurrency_context_tokens")
_BUILDS = frozenset({"llama.cpp"})
"""Engines whose releases are numbered builds."""
_WITHOUT_HISTORY = frozenset({"0", "1"})
"""What a build is called that was made of sources without their history, whatever they are."""
_NOT_OF_THE_ENGINE = frozenset({"model_tag", "subparser", "dispatch_function", "max_seq_len", "device_config"})
"""Names of printed lists that are no flags: how the command was started, and what stands elsewhere too."""

_DECIMALS = frozenset({"memory_utilization"})
"""Names that need not be whole numbers."""
_SHOWN = 8


class Implied(NamedTuple):
    """Names of a question with their values, what no question may have, and what of the settings has no name.

    `named` is the model where the settings change it, None where it is as published.
    """

    asked: dict[str, Any]
    beyond: tuple[Fault, ...]
    warnings: tuple[str, ...]
    named: NamedModel | None = None


def implied(reading: LogReading, given: Mapping[str, Any], catalog: Catalog) -> Implied:
    """What the log asks beside the names that are given; its model and GPU by the names that the log prints."""
    said = {name: value.value for name, value in reading.said.items()}
    asked: dict[str, Any] = {"engine": reading.engine}
    release = _release(reading)
    if release is not None:
        asked["engine_version"] = release
    if "model" in said:
        word, kind = typed_file(str(said["model"]))
        # The name of a model that is given says nothing of the file.
        kind = kind or (file_type(word) if {"model", "config"} & given.keys() else None)
        asked |= {"model": pointed(word).name, "weight_dtype": kind}
    warnings = [] if "engine_version" in given else _of_the_build(reading, release, catalog)
    engine, named = _engine(reading, catalog), None
    if engine is not None and reading.settings:
        settings, named = _understood(reading, engine, {**asked, **given}, catalog, warnings)
        asked |= settings
    asked |= {
        name: said[name] for name in _RESOLVED.get(reading.engine or "", ()) if name in said and name not in asked
    }
    _settle_cards(asked, reading, given, catalog, warnings)
    if "attention_data_parallel" in asked:
        asked.pop("data_parallel", None)
    length = next((said[name] for name in _CONTEXT if isinstance(said.get(name), int)), None)
    if length is not None:
        asked |= {"context_tokens": length, "context_limit_tokens": length}
    asked = {name: value for name, value in asked.items() if value is not None}
    return Implied(asked, tuple(_take_beyond(asked)), tuple(warnings), named)


def _take_beyond(asked: dict[str, Any]) -> list[Fault]:
    """Take out what no question may have, a fault for each."""
    beyond = [name for name, value in asked.items() if not _is_within(name, value)]
    return [
        Fault(f"/{name}", f"The log says {name} {asked.pop(name)!s:.40}, which no question has.") for name in beyond
    ]


def _settle_cards(
    asked: dict[str, Any], reading: LogReading, given: Mapping[str, Any], catalog: Catalog, warnings: list[str]
) -> None:
    """Several cards one by one; of one that the catalog does not hold, its memory alone."""
    if len(reading.devices) > 1:
        asked.pop("gpu", None)
        asked["gpus"] = list(reading.devices)
    memory = _memory(reading)
    if "gpu" not in asked or memory is None:
        return
    try:
        card, note = card_named(str(asked["gpu"]), catalog, memory_bytes=memory)
    except QuoteError:
        if "memory_bytes" in asked:
            unknown = f"{asked.pop('gpu')!s:.60}"
            warnings.append(f"The log names a {unknown}, which the catalog does not hold: its memory is taken.")
        return
    # Beside its memory the question's own reading of the name says the same.
    if note is not None and "memory_bytes" not in asked:
        asked["gpu"] = card.id
        warnings += [] if "gpu" in given else [f"{note}."]


def _memory(reading: LogReading) -> int | None:
    """The memory of a device, where the log says it."""
    said = reading.said.get("memory_bytes")
    return said.value if said is not None and isinstance(said.value, int) else None


def _release(reading: LogReading) -> str | None:
    """The release by the name that a question has for it; None where the log does not say one."""
    if reading.engine not in _BUILDS or reading.version is None:
        return reading.version
    return None if reading.version in _WITHOUT_HISTORY else f"b{reading.version}"


def _of_the_build(reading: LogReading, release: str | None, catalog: Catalog) -> list[str]:
    """What to say of a build that nobody knows, or that is older or newer than all whose rules were read."""
    if reading.engine not in _BUILDS:
        return []
    if release is None:
        said = "does not say its build"
        if reading.version is not None:
            said = f"prints build {reading.version}, as sources without their history do"
        return [f"The log {said}: the newest known is quoted; give engine_version for another."]
    try:
        engine: Any = catalog.engine(str(reading.engine))
        known = min(engine.read) <= int(str(reading.version)) <= engine.newest_build
        return [] if known else [f"The log is of a build beyond those known: {engine.release(release).note}."]
    except QuoteError:
        # The quote is refused for the same reason, and says so.
        return []


def _is_within(name: str, value: object) -> bool:
    """Whether a question may have the value: what a log says goes through no schema."""
    span = SPANS.get(name)
    if span is None or isinstance(value, list):
        return True
    if type(value) is not int and (type(value) is not float or name not in _DECIMALS):
        return False
    return (span.least < value if span.above_least else span.least <= value) and value <= span.greatest


def _engine(reading: LogReading, catalog: Catalog) -> ServingEngine | None:
    try:
        engine: Any = catalog.engine(str(reading.engine))
    except QuoteError:
        return None
    return engine if hasattr(engine, "flags") else None


def _understood(
    reading: LogReading, engine: ServingEngine, asked: Mapping[str, Any], catalog: Catalog, warnings: list[str]
) -> tuple[dict[str, Any], NamedModel | None]:
    """The printed settings as names of a question, and the model where they change it.

    What is not known or not modelled is a warning.
    """
    # Of what is nested plain lists and dictionaries mean something, objects of the engine's own nothing.
    nested = {name: _evaluated(text) for name, text in reading.nested_settings.items()}
    printed = {**reading.settings, **{name: value for name, value in nested.items() if isinstance(value, dict | list)}}
    settings = {name: value for name, value in printed.items() if name not in _NOT_OF_THE_ENGINE and value is not None}
    found = understand(engine, settings, reading.version, asked)
    unknown = [fault.detail for fault in found.wrong]
    published = _published(asked, catalog)
    if published is not None:
        settle_weights(found, published, catalog, engine.flags.quantization, asked)
    warnings += [fault.detail for fault in found.refused]
    warnings += found.warnings
    named = None
    if not _SCALED.isdisjoint(found.settings):
        named = _rescaled(found, published, engine, asked)
        if named is None:
            warnings.append("The printed settings scale positions: rotary tables are quoted as published.")
    if _STATE_TYPE in found.settings:
        warnings.append("The printed settings type recurrent states: they are quoted in the type of the config.")
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        warnings.append(f"Not understood of the printed settings: {' '.join(unknown[:_SHOWN])}{more}")
    found.settings.pop("model", None)
    return {name: value for name, value in found.settings.items() if not name.startswith("_")}, named


def _published(asked: Mapping[str, Any], catalog: Catalog) -> NamedModel | None:
    """The model by its name, where the catalog knows it; of any other the checkpoint's own figures are taken."""
    name = asked.get("model")
    try:
        return None if name is None or "config" in asked else catalog.named_model(str(name))
    except QuoteError:
        return None


def _rescaled(
    found: Understood, published: NamedModel | None, engine: ServingEngine, asked: Mapping[str, Any]
) -> NamedModel | None:
    """The model with its positions as the settings scale them; None where that cannot be told."""
    try:
        lengths = engine.release_defaults(asked).lengths
    except QuoteError:
        return None
    before = len(found.notes)
    named = published and rescaled_model(found, published, lengths)
    if named is None or named is published:
        return None
    return named._replace(note="; ".join(filter(None, (named.note, *found.notes[before:]))))


def _evaluated(text: str) -> object:
    """A printed dictionary of plain values; None where it holds objects of the engine's own, or what is no text."""
    try:
        value: object = ast.literal_eval(text)
        return value if _is_text(value) else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _is_text(value: object) -> bool:
    """Whether no half of a surrogate pair stands anywhere in it, which no answer can repeat."""
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return all(_is_text(part) for pair in value.items() for part in pair)
    return not isinstance(value, list | tuple | set) or all(map(_is_text, value))
