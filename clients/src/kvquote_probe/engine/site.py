"""An engine's HTTP server as the readers see it: each page asked for once, and bounded in size and time.

Only idempotent GETs, no redirects, and no token but the one given for this engine. What answers may be anything.
"""

from __future__ import annotations

import json
import math
import os
from http import HTTPStatus
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from kvquote_client.errors import InvalidInput
from kvquote_client.transport import checked_url
from kvquote_probe.commands import MeasureError

TOKEN_VARIABLE = "KVQUOTE_ENGINE_TOKEN"  # noqa: S105 - the name of a variable
MOST_BYTES = 8 << 20
"""A metrics page of sixteen replicas has half a megabyte."""

CONNECT_SECONDS, READ_SECONDS, PAGE_SECONDS = 3.0, 5.0, 10.0
_CHUNK = 1 << 16
_ABSENT = frozenset({400, 404, 405, 406, 410, 501})
_FORBIDDEN = frozenset({401, 403})


class EngineError(MeasureError):
    """Why an engine could not be read, in a sentence that says what to do about it."""


class Page(NamedTuple):
    """What a path answered with a status of success."""

    kind: str
    body: bytes


class Site:
    """A server under one address. Pages are kept: nothing is asked for twice, and some engines drain what is read."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """Raises EngineError where `url` is no address."""
        try:
            self.url = checked_url(url)
        except InvalidInput as error:
            raise EngineError(str(error)) from error
        self.failures: list[EngineError] = []
        self._pages: dict[str, Page | None] = {}
        self._session = requests.Session()
        # Neither proxies of the environment nor ~/.netrc: what is asked is a neighbour.
        self._session.trust_env = False
        self._session.headers["Accept-Encoding"] = "identity"
        token = token or os.environ.get(TOKEN_VARIABLE, "").strip()
        if token:
            if not (token.isascii() and token.isprintable() and " " not in token):
                # Said here, since requests would repeat it.
                raise EngineError(f"What {TOKEN_VARIABLE} holds is no token: that is printable ASCII without spaces.")
            self._session.headers["Authorization"] = f"Bearer {token}"

    @property
    def is_here(self) -> bool:
        """Whether the server runs on this machine, as far as its address says."""
        return urlsplit(self.url).hostname in {"localhost", "127.0.0.1", "::1"}

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def document(self, path: str) -> Any:  # noqa: ANN401 - any JSON
        """The JSON of a page; None where there is no such page or it is no JSON. Raises EngineError."""
        page = self.page(path)
        if page is None:
            return None
        try:
            return json.loads(page.body, parse_constant=_no_number, parse_float=_finite)
        except (ValueError, RecursionError):
            return None

    def named(self, path: str) -> dict[str, Any]:
        """The JSON object of a page, {} where there is none. Raises EngineError."""
        found = self.document(path)
        return found if isinstance(found, dict) else {}

    def optional(self, path: str) -> dict[str, Any]:
        """The JSON object of a page that is not needed, {} also where the server fails to answer."""
        try:
            return self.named(path)
        except EngineError:
            return {}

    def text(self, path: str) -> str:
        """The text of a page, "" where there is none. Raises EngineError."""
        page = self.page(path)
        return page.body.decode("utf-8", "replace") if page else ""

    def page(self, path: str) -> Page | None:
        """A page as it came; None where the server says that it has none. Raises EngineError."""
        if path not in self._pages:
            try:
                self._pages[path] = self._fetched(path)
            except EngineError as error:
                self.failures.append(error)
                self._pages[path] = None
                raise
        return self._pages[path]

    def _fetched(self, path: str) -> Page | None:
        """Fetch in a thread of its own: a server that sends a byte now and then must not hold the probe."""
        done: SimpleQueue[Page | EngineError | None] = SimpleQueue()
        Thread(target=lambda: done.put(self._answer(self.url + path)), daemon=True).start()
        try:
            answer = done.get(timeout=PAGE_SECONDS)
        except Empty:
            raise EngineError(f"{self.url}{path} has not answered whole within {PAGE_SECONDS:.0f} s.") from None
        if isinstance(answer, EngineError):
            raise answer
        return answer

    def _answer(self, address: str) -> Page | EngineError | None:
        try:
            with self._session.get(
                address, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS), allow_redirects=False
            ) as reply:
                if reply.status_code == HTTPStatus.OK:
                    return Page(reply.headers.get("Content-Type", ""), _whole(reply, address))
                return _refused(address, reply.status_code)
        except EngineError as error:
            return error
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            return EngineError(f"{address} could not be read: {_reason(error)}")


def _whole(reply: requests.Response, address: str) -> bytes:
    pieces, size = [], 0
    for piece in reply.iter_content(_CHUNK):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise EngineError(f"{address} answers more than {MOST_BYTES >> 20} MiB, which no engine does.")
    return b"".join(pieces)


def _refused(address: str, status: int) -> EngineError | None:
    if status in _ABSENT or status < HTTPStatus.BAD_REQUEST:
        return None
    if status in _FORBIDDEN:
        return EngineError(f"{address} wants a token (HTTP {status}): give the engine's in {TOKEN_VARIABLE}.")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return EngineError(f"{address} has too many requests (HTTP 429): try again later.")
    return EngineError(f"{address} answers HTTP {status}: is the engine still starting, or ending?")


def _reason(error: BaseException) -> str:
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError) and "refused" in str(error).lower():
        return "nothing listens there"
    return (str(error) or type(error).__name__)[:200]


def _no_number(name: str) -> None:
    """NaN and infinities, which JSON has not and Python writes: as if nothing was said."""
    del name


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None
