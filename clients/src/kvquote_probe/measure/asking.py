"""What measurements ask of a service: a model's normal form, number formats, and what it would quote."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from kvquote_client.errors import KvquoteError
from kvquote_client.transport import Transport
from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.form import ModelForm
from kvquote_probe.measure.formats import CacheFormat

DEFAULT_MODEL = "llama-3.1-8b-instruct"
"""Measured where nobody names one: grouped-query attention, known everywhere, and it fits the cards of servers."""

_LARGE_BYTES = 1 << 50
"""Memory that no model's weights fill: what a sequence takes is asked, not whether it fits."""


class Service(Protocol):
    """Where documents come from; `path` begins with a slash."""

    def get(self, path: str) -> Any:  # noqa: ANN401  # JSON
        """A document."""

    def post(self, path: str, document: Mapping[str, Any]) -> Any:  # noqa: ANN401  # JSON
        """The answer to a document."""


class HttpService:
    """A service over HTTP; what it refuses becomes a MeasureError with its words."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._transport = Transport(url, token, user_agent="kvquote-probe")

    def get(self, path: str) -> Any:  # noqa: ANN401  # JSON
        """A document."""
        return self._asked("GET", path)

    def post(self, path: str, document: Mapping[str, Any]) -> Any:  # noqa: ANN401  # JSON
        """The answer to a document; asking twice does no more than asking once."""
        return self._asked("POST", path, json=document, repeat=True)

    def _asked(self, method: str, path: str, **more: Any) -> Any:  # noqa: ANN401  # JSON
        try:
            return self._transport.request(method, path, **more).body
        except KvquoteError as error:
            raise MeasureError(f"The service was asked for {path}: {error}") from error


def add_model_arguments(parser: ArgumentParser) -> None:
    """The model to measure, and the types it is kept in."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", metavar="NAME", help=f"a model of the service's catalog ({DEFAULT_MODEL})")
    which.add_argument("--config", metavar="FILE", type=Path, help="a published config.json; only its shapes are used")
    parser.add_argument("--kv-dtype", metavar="NAME", help="how the cache is kept; the model's own unless said")


def asked_for(args: Namespace) -> dict[str, Any]:
    """How a question names the model of the arguments."""
    if args.config is None:
        return {"model": args.model or DEFAULT_MODEL}
    try:
        config = json.loads(args.config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MeasureError(f"The config cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise MeasureError("The config is no JSON object.")
    return {"config": config}


def model_words(args: Namespace) -> str:
    """The model of the arguments, for a plan."""
    return "the config" if args.config is not None else args.model or DEFAULT_MODEL


def model_form(service: Service, question: Mapping[str, Any]) -> ModelForm:
    """The normal form of what a question names."""
    if "config" in question:
        return ModelForm.read(service.post("/models/inspect", {"config": question["config"]}), question)
    return ModelForm.read(service.get(f"/models/{quote(question['model'], safe='/')}"), question)


def cache_formats(service: Service, name: str) -> tuple[CacheFormat, CacheFormat]:
    """The formats of keys and of values: one name for both, or `keys/values`."""
    keys, _, values = name.partition("/")
    found = [_cache_format(service, part) for part in (keys, values or keys)]
    return found[0], found[1]


def _cache_format(service: Service, name: str) -> CacheFormat:
    try:
        return CacheFormat.read(service.get(f"/dtypes/{quote(name, safe='')}"))
    except ValueError as error:
        raise MeasureError(str(error)) from error


def quoted(service: Service, question: Mapping[str, Any]) -> dict[str, Any]:
    """What `/fit` answers; on a memory that all fits where the question names none."""
    sized = {"gpu", "memory_bytes"} & set(question)
    answer: dict[str, Any] = service.post("/fit", question if sized else {**question, "memory_bytes": _LARGE_BYTES})
    return answer
