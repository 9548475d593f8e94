"""A start-up log, from a file or standard input, to a reading.

What the lines say is read by the package that the service has for `POST /logs`: pure standard library, which the wheel
carries along, so that a log reads the same here and there. In a checkout it is found beside the service.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from kvquote_probe.engine import vllm
from kvquote_probe.engine.figures import number_format, told
from kvquote_probe.engine.site import EngineError
from kvquote_probe.engine.telling import Told, reading, tokens_of_blocks
from kvquote_probe.names import model_name, plain_text
from kvquote_probe.readings import Reading

_PLACES = ("kvquote_probe._engine_logs", "service.domain.logs")
_MOST_LINE = 1 << 20
_VALUES = (
    *("kv_capacity_tokens", "kv_cache_bytes", "weight_bytes", "activation_bytes", "graph_bytes", "other_bytes"),
    *("blocks", "block_tokens", "max_concurrency"),
)
_SUFFICES = frozenset({"kv_capacity_tokens", "kv_cache_bytes"})
_SETUP = (
    *("context_limit_tokens", "memory_utilization", "max_batched_tokens", "max_sequences_limit"),
    *("tensor_parallel", "pipeline_parallel", "data_parallel"),
)


def read_log(place: str, given: Told) -> list[Reading]:
    """The reading of the log at a path, or of standard input for `-`. Raises EngineError."""
    reader = _reader()
    with _opened(place) as file:
        found = reader.read(_lines(file))
    if found.engine is None:
        raise EngineError(
            f"No line of {_called(place)} is one of an engine's that is read: {', '.join(reader.ENGINES)}."
        )
    if found.refusal is not None and "kv_capacity_tokens" not in found.said:
        raise EngineError(f"The engine did not start: {found.refusal.kind}, line {found.refusal.line:,}.")
    values = _values(found, given)
    if not _SUFFICES & values.keys():
        raise EngineError(
            f"{_called(place)} does not say what the cache holds. Give the whole log, from its first line on, of the "
            "process that runs the engine."
        )
    return [reading(found.engine, found.version, values, _setup(found.said), _device(found.said, given))]


def _values(found: Any, given: Told) -> dict[str, Any]:  # noqa: ANN401 - the reading of a package that is found late
    """What the log says, and the tokens of its blocks where it does not say them itself."""
    values = {name: found.said[name].value for name in _VALUES if name in found.said}
    if found.engine == vllm.NAME and not _SUFFICES & values.keys():
        model = found.said["model"].value if "model" in found.said else None
        blocks, block_tokens = values.get("blocks"), values.get("block_tokens")
        tokens = tokens_of_blocks(blocks, block_tokens, model, vllm.as_of(found.version, given))
        values["kv_capacity_tokens"] = tokens
    return told(values)


def _setup(said: Mapping[str, Any]) -> dict[str, Any]:
    name = model_name(said["model"].value) if "model" in said else model_name(None)
    formats = {kind: number_format(said[kind].value) for kind in ("weight_dtype", "kv_dtype") if kind in said}
    numbers = {kind: said[kind].value for kind in _SETUP if kind in said}
    return {"model": name.model, "weight_dtype": name.weight_dtype, **formats, **numbers}


def _device(said: Mapping[str, Any], given: Told) -> Told:
    """The card that the log names, unless somebody says another."""
    if given.gpu is not None or "gpu" not in said:
        return given
    count = said["gpu_count"].value if "gpu_count" in said else None
    gpu = told({"name": plain_text(said["gpu"].value), "count": count})
    return Told(gpu=gpu if "name" in gpu else None, setup=given.setup)


def _reader() -> ModuleType:
    found = next(filter(None, map(_imported, _PLACES)), None)
    if found is None:
        raise EngineError("This installation cannot read logs: install the wheel of kvquote-clients, which can.")
    return found


def _imported(place: str) -> ModuleType | None:
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        # Only where it is missing: one that fails inside is a fault to be seen.
        if error.name is not None and place.startswith(error.name):
            return None
        raise


@contextmanager
def _opened(place: str) -> Iterator[TextIO]:
    if place == "-":
        if sys.stdin is None:  # whoever started this has closed it
            raise EngineError("Standard input is closed: give the log's file.")
        yield io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
        return
    try:
        with Path(place).open(encoding="utf-8", errors="replace") as file:
            yield file
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"{place!r} cannot be read: {reason}.") from error


def _lines(file: TextIO) -> Iterable[str]:
    """Lines, the longest cut: a log may be anything, and no line of interest is long."""
    return iter(lambda: file.readline(_MOST_LINE), "")


def _called(place: str) -> str:
    return "standard input" if place == "-" else place
