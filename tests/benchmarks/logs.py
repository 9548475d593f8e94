"""Start-up logs: ten times the log to the time of one, and memory beyond the log's own size, in three forms.

The start stands at the end of lines as a server writes them while it runs, and as a container's runtime packs them.
"""

import json
import tracemalloc
from collections.abc import Callable
from io import BytesIO

from flask import Flask
from werkzeug.test import EnvironBuilder, run_wsgi_app

from service.api import limits
from service.api.logs import EXAMPLES
from tests.benchmarks.calling import Contender, application, interleaved
from tests.benchmarks.figures import Figure, mebibytes, microseconds, ratio
from tests.benchmarks.workplace import Workplace

TIMES = 10
_JSON, _LINES, _TEXT = "application/json", "application/x-ndjson", "text/plain"
_SERVING = (
    "INFO 11-02 04:25:00 [loggers.py:118] Engine 000: Avg prompt throughput: 412.0 tokens/s, GPU KV cache usage: 1%\n",
    'INFO:     10.0.0.9:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n',
)


def measure(place: Workplace) -> list[Figure]:
    # A mebibyte each where all is measured: ten of them are the limit.
    size = min(limits.LOG_BYTES // TIMES, place.effort.asked << 10)
    place.say(f"logs: {size:,} bytes and {TIMES} times as many, by type of body")
    with application(place.sqlite_url) as app:
        figures = [figure for kind in (_TEXT, _LINES, _JSON) for figure in _times(app, kind, size, place.effort.rounds)]
        return figures + [_memory(app, kind, size * TIMES) for kind in (_TEXT, _LINES, _JSON)]


def _times(app: Flask, kind: str, size: int, rounds: int) -> list[Figure]:
    one, ten = _posts(app, kind, body(kind, size)), _posts(app, kind, body(kind, size * TIMES))
    interleaved([one, ten], min(rounds, 3))
    return [
        microseconds(f"logs: {kind}, {size:,} bytes", one.best),
        ratio(f"logs: {kind}, {TIMES} times the log", ten.best, one.best, 12),
    ]


def _posts(app: Flask, kind: str, content: bytes) -> Contender:
    def batch() -> Callable[[], int]:
        environ = EnvironBuilder(path="/logs", method="POST", content_type=kind, data=content).get_environ()
        return lambda: _posted(app, environ)

    return Contender(batch)


def _posted(app: Flask, environ: dict[str, object]) -> int:
    _, status, _ = run_wsgi_app(app, environ)
    assert status.startswith("200"), status
    return 1


def _memory(app: Flask, kind: str, size: int) -> Figure:
    """The most that is held at once beyond the log; the body itself is taken from where the server has it."""
    content = body(kind, size)
    environ = EnvironBuilder(path="/logs", method="POST", content_type=kind).get_environ()
    environ |= {"wsgi.input": BytesIO(content), "CONTENT_LENGTH": str(len(content))}
    tracemalloc.start()
    try:
        _posted(app, environ)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return mebibytes(f"logs: {kind}, memory beyond its size", max(0, most - size), 20)


def body(kind: str, size: int) -> bytes:
    """A log of about that size, never more, that ends with a start."""
    start = str(EXAMPLES["vLLM on an H100"]["value"]["log"])  # type: ignore[index]  # an object, as written there
    lines = start.splitlines(keepends=True)
    if kind == _LINES:
        lines = [_packed(line) for line in lines]
    serving = [_packed(line) if kind == _LINES else line for line in _SERVING]
    room = size - len(json.dumps("".join(lines))) - 64
    turns = max(0, room // len(json.dumps("".join(serving))))
    text = "".join(serving * turns + lines)
    return (json.dumps({"log": text}) if kind == _JSON else text).encode()


def _packed(line: str) -> str:
    return json.dumps({"log": line, "stream": "stderr", "time": "2025-11-02T04:25:00.123456789Z"}) + "\n"
