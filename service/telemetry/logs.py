"""Structured logs: one JSON object per line on stdout, from our own code, the libraries and gunicorn alike.

Never in a line: bodies, query strings, headers, tokens, or a path that no route matched.
"""

import json
import logging
import sys
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import TextIO

import orjson
import structlog
from flask import has_request_context, request
from structlog.typing import EventDict, Processor

from service.settings import LogFormat, Settings
from service.telemetry import request_ids

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
AccessLog = Callable[[MutableMapping[str, object]], None]

# Built once: json.dumps with an argument builds an encoder for every line.
_encode = json.JSONEncoder(default=repr, separators=(",", ":")).encode


def configure(settings: Settings, stream: TextIO | None = None) -> None:
    """Send structlog and the standard library's loggers through one renderer to `stream`, by default stdout."""
    handler = logging.StreamHandler(sys.stdout if stream is None else stream)
    handler.setFormatter(formatter(settings.log_format))
    logging.basicConfig(handlers=[handler], level=LEVELS[settings.log_level], force=True)
    structlog.configure(
        processors=[*_described(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.log_level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )


def access_log(settings: Settings, stream: TextIO | None = None) -> AccessLog | None:
    """What writes the one line of each request; None where the level leaves such lines out.

    It skips structlog's chain and keeps its shape: the chain costs as much again as the rest of the line.
    """
    if LEVELS[settings.log_level] > logging.INFO:
        return None
    render = _json_line if settings.log_format is LogFormat.JSON else _console_line

    def write(event: MutableMapping[str, object]) -> None:
        target = sys.stdout if stream is None else stream
        target.write(render({"event": "http_request", "level": "info", "timestamp": datetime.now(UTC), **event}))
        target.flush()

    return write


def _console() -> structlog.dev.ConsoleRenderer:
    # The rich traceback prints local variables, and those may hold a body or a password.
    return structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)


def _json_line(event: EventDict) -> str:
    """In a tenth of the time that json takes, and ASCII alone as its values are: ids and routes that we checked."""
    return orjson.dumps(event, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE).decode()


def _console_line(event: EventDict) -> str:
    shown = {**event, "timestamp": event["timestamp"].isoformat().replace("+00:00", "Z")}
    return f"{_console()(None, 'info', shown)}\n"


def _with_request_id(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Looked up when a line is written, so that a request without one pays nothing for it."""
    if has_request_context():
        event.setdefault("request_id", request.environ.get(request_ids.ENVIRON_KEY))
    return event


def _described() -> list[Processor]:
    return [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
        _with_request_id,
    ]


def formatter(log_format: LogFormat) -> logging.Formatter:
    """Render a record of the standard library's logging as our own lines look."""
    json_lines: list[Processor] = [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=lambda event, **_: _encode(event)),
    ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_described(), structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *(json_lines if log_format is LogFormat.JSON else [_console()]),
        ],
    )
