"""HTTP as the SDK, the command line and the probe speak it: timeouts always, and tries again where that is safe.

urllib3's own retries end where the headers do; a body that breaks off is past them, and they cannot tell one request
from another. So the tries are counted here, around the whole exchange, and urllib3 is asked only for what it does
right: reading Retry-After. A whole call, its tries and waits among it, has a time that `connections` keeps.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError, InvalidHeader, NewConnectionError
from urllib3.util import Retry

from kvquote_client.connections import BoundedAdapter, Deadline
from kvquote_client.errors import BadAnswer, InvalidInput, Unreachable, refusal
from kvquote_client.sending import encoded

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from typing_extensions import Self

    from kvquote_client.errors import Refused

DEFAULT_TIMEOUT_SECONDS: Final = (3.05, 30.0)
DEFAULT_DEADLINE_SECONDS: Final = 300.0
DEFAULT_RETRIES: Final = 3
# What a service or a proxy says when the same request may do later. 429 and 503 are said before anything was done.
_LATER: Final = frozenset({429, 502, 503, 504})
_UNTOUCHED: Final = frozenset({429, 503})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FIRST_WAIT_SECONDS: Final = 0.2
_LONGEST_WAIT_SECONDS: Final = 20.0
_LONGEST_ASKED_SECONDS: Final = 366 * 86400
_LONGEST_SECONDS: Final = 30 * 86400
_LARGEST_ANSWER_BYTES: Final = 64 * 1024 * 1024
# As it came: a thousand times as much may be packed into it.
_CHUNK_BYTES: Final = 64 * 1024
# Where libraries disagree about which host is meant, or what follows the path.
_NO_ADDRESS: Final = re.compile(r"[\s\\\"<>^`{|}?#]")
# urllib3 puts the connection before what happened to it; before release 2 as Python shows objects.
_OBJECT: Final = re.compile(r"^((HTTPS?Connection|_Plain|_Secure)(Pool)?\(.*?\)|<[\w.]+ object at \w+>): ")
_LOOPBACK: Final = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)


class Reply(NamedTuple):
    """An answer below 400, whole. `body` is the parsed JSON; None where there is no body, text where it is no JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def etag(self) -> str | None:
        """What a later write has to send as If-Match."""
        return self.headers.get("ETag")


class Transport:
    """One service's address, its token, and a connection that is kept.

    `timeout` is seconds to connect and seconds between two pieces of an answer, or one number for both; `deadline` is
    seconds for a whole call, with all its tries and the waits between them. `retries` is how often a request is tried
    again; a Retry-After of up to 20 s is waited for, a longer one is left to the caller, who finds it in
    `Unavailable.retry_after_seconds`. Not to be shared by threads.
    """

    def __init__(  # noqa: PLR0913 - how to ask, each by its name
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float | tuple[float, float] = DEFAULT_TIMEOUT_SECONDS,
        deadline: float = DEFAULT_DEADLINE_SECONDS,
        retries: int = DEFAULT_RETRIES,
        user_agent: str = "kvquote-client",
    ) -> None:
        self.url = checked_url(url)
        connect, piece = timeout if isinstance(timeout, tuple) else (timeout, timeout)
        self.timeout = (_checked_seconds(connect), _checked_seconds(piece))
        self.deadline = _checked_seconds(deadline)
        self.retries = retries
        self.session = requests.Session()
        self.session.headers.update({"Accept": "application/json", "User-Agent": user_agent})
        self.session.auth = _Bearer(token)
        self._clock = Deadline(self.timeout[1])
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, BoundedAdapter(self._clock))
        # A proxy cannot reach what only this machine sees; https still has its certificates from the environment.
        parts = urlsplit(self.url)
        here = _LOOPBACK.fullmatch(parts.hostname or "") is not None
        self.session.trust_env = parts.scheme != "http" or not here
        self._proxies = {"no_proxy": str(parts.hostname)} if here else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self.session.close()

    def request(  # noqa: PLR0913 - what HTTP has, each by its name
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: object = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool | None = None,
        answers: Collection[int] = (),
    ) -> Reply:
        """Ask, and try again where it is safe.

        `repeat` says that doing it twice does what once does; GET says so by itself. Without it only what was certainly
        not begun is tried again. `answers` are statuses of 400 and more that are an answer here and no refusal.

        Raises:
            InvalidInput: it cannot be sent.
            Unreachable: no whole answer came, whatever was tried.
            BadAnswer: what came is no answer of this service.
            Refused: the service answered with a problem.
        """
        sent = dict(headers or {})
        if json is not None:
            data = encoded(json)
            sent.setdefault("Content-Type", "application/json")
        asked = self._prepared(requests.Request(method, self.url + path, params=params, data=data, headers=sent))
        safe = method in _SAFE_METHODS if repeat is None else repeat
        self._clock.start(self.deadline)
        for tries in itertools.count():
            outcome = self._once(asked, answers)
            if isinstance(outcome, Reply):
                return outcome
            wait = _wait_seconds(outcome, tries, safe=safe)
            if tries >= self.retries or wait is None or wait >= self._clock.left:
                raise outcome
            time.sleep(wait)
        raise AssertionError

    def _prepared(self, request: requests.Request) -> requests.PreparedRequest:
        try:
            return self.session.prepare_request(request)
        except (requests.RequestException, ValueError) as error:
            raise InvalidInput(f"{request.url} cannot be asked: {error}") from error

    def _once(self, asked: requests.PreparedRequest, answers: Collection[int]) -> Reply | Refused | Unreachable:
        url = str(asked.url)
        try:
            settings = self.session.merge_environment_settings(url, {**self._proxies}, True, None, None)  # noqa: FBT003 - `stream`
            with self.session.send(asked, timeout=self.timeout, allow_redirects=False, **settings) as reply:
                body = self._whole(reply)
        except requests.exceptions.ContentDecodingError as error:
            raise BadAnswer(f"{url} answered what cannot be unpacked: {_cause(error)}") from error
        except (requests.RequestException, HTTPError, OSError) as error:
            return self._unreachable(error)
        except ValueError as error:  # requests lets through what urllib3 thinks of a header
            raise InvalidInput(f"{url} cannot be asked: {error}") from error
        return _read(reply, body, answers)

    def _whole(self, reply: requests.Response) -> bytes:
        pieces, size = [], 0
        for piece in reply.iter_content(_CHUNK_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > _LARGEST_ANSWER_BYTES:
                raise BadAnswer(f"{reply.url} answered more than {_LARGEST_ANSWER_BYTES:,} bytes")
            self._clock.wait_seconds()
        missing = getattr(reply.raw, "length_remaining", 0)
        if missing:  # urllib3 before 2 leaves it at that
            raise requests.ConnectionError(f"the answer ends {missing} bytes early")
        return b"".join(pieces)

    def _unreachable(self, error: Exception) -> Unreachable:
        who = f"the proxy before {self.url}" if isinstance(error, requests.exceptions.ProxyError) else self.url
        cause = _cause(error)
        words = _OBJECT.sub("", str(cause)).strip() or type(cause).__name__
        late = f"{who} has not answered whole within {self.deadline:g} s"
        failure = Unreachable(late if self._clock.left <= 0 else f"{who} does not answer: {words}")
        failure.__cause__ = error
        failure.not_begun = isinstance(error, requests.ConnectTimeout) or isinstance(cause, NewConnectionError)
        # What requests takes for a mistake in an address, of a proxy too, is one the next time as well.
        failure.may_pass = not isinstance(error, requests.exceptions.SSLError | ValueError)
        return failure


class _Bearer(AuthBase):
    """The token of each request. As `auth`, because a header would give way to what ~/.netrc has for the host."""

    def __init__(self, token: str | None) -> None:
        if token is not None and not (token.isascii() and token.isprintable() and token.split() == [token]):
            raise InvalidInput("a token is printable ASCII without spaces")
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.token is not None:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


def checked_url(url: str) -> str:
    """The address without a slash at its end.

    Raises:
        InvalidInput: it is no address of http or https.
    """
    try:
        parts = urlsplit(url)
        named = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise InvalidInput(f"{url!r} is no address: {error}") from error
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("an address with a user or a password in it ends up in logs; there is `token` for that")
    if parts.scheme not in {"http", "https"} or not named or not url.isprintable() or _NO_ADDRESS.search(url):
        raise InvalidInput(f"{url!r} is no address of a service; one looks like http://127.0.0.1:8000")
    return url.rstrip("/")


def _checked_seconds(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_SECONDS:
        raise InvalidInput(f"{seconds!r:.40} is no time to wait: that is above 0 s and up to {_LONGEST_SECONDS:,} s")
    return float(seconds)


def _read(reply: requests.Response, body: bytes, answers: Collection[int]) -> Reply | Refused:
    if reply.status_code < HTTPStatus.OK:
        raise BadAnswer(f"{reply.url} answered HTTP {reply.status_code} and left it at that")
    parsed = _parsed(reply, body)
    if reply.status_code in answers or reply.status_code < HTTPStatus.MULTIPLE_CHOICES:
        return Reply(reply.status_code, reply.headers, parsed)
    if reply.status_code == HTTPStatus.NOT_MODIFIED:
        return Reply(reply.status_code, reply.headers, None)
    if reply.status_code < HTTPStatus.BAD_REQUEST:
        raise BadAnswer(f"{reply.url} sends on to {reply.headers.get('Location')!r}: give the address that answers")
    problem = parsed if isinstance(parsed, dict) else {}
    request_id = problem.get("request_id") or reply.headers.get("X-Request-ID")
    refused = refusal(reply.status_code, problem, request_id=request_id, url=str(reply.url))
    refused.retry_after_seconds = _retry_after(reply)
    return refused


def _parsed(reply: requests.Response, body: bytes) -> object:
    kind = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not body:
        return None
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return _DECODER.decode(body.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            if reply.status_code >= HTTPStatus.BAD_REQUEST:
                return None
            raise BadAnswer(f"{reply.url} answered JSON that cannot be read: {error}") from error
    return body.decode("utf-8", "replace")


def _retry_after(reply: requests.Response) -> float | None:
    header = reply.headers.get("Retry-After")
    try:
        return None if header is None else float(min(max(0, Retry().parse_retry_after(header)), _LONGEST_ASKED_SECONDS))
    except (InvalidHeader, ValueError, OverflowError):
        return None


def _wait_seconds(failure: Refused | Unreachable, tries: int, *, safe: bool) -> float | None:
    """How long to wait before the next try; None where another try is unsafe, useless or too far away."""
    wait = _FIRST_WAIT_SECONDS * 2**tries * (0.5 + random.random())  # noqa: S311 - spreads tries, hides nothing
    if isinstance(failure, Unreachable):
        return wait if failure.may_pass and (safe or failure.not_begun) else None
    if failure.status not in (_LATER if safe else _UNTOUCHED):
        return None
    asked_for = failure.retry_after_seconds
    wait = wait if asked_for is None else asked_for + wait
    return wait if wait <= _LONGEST_WAIT_SECONDS else None


def _cause(error: BaseException) -> BaseException:
    """What happened first; the errors around it say where it passed. Each has its cause in another place."""
    reasons = (getattr(error, "reason", None), *error.args)
    inner = next((reason for reason in reasons if isinstance(reason, BaseException)), None)
    return error if inner is None else _cause(inner)
