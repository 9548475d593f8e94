"""Connections that keep a whole call within its time.

requests bounds the wait for one piece of an answer, so a server that sends a byte now and then is never given up; and
it sends a body within the time to connect, so a large one never arrives over a slow line. Here every piece, of what is
sent and of what comes, has its own wait and what is left of the whole.
"""

from __future__ import annotations

import io
import time
from functools import partial
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any, Final

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    import socket

    from typing_extensions import Buffer

_PIECE_BYTES: Final = 64 * 1024


class Deadline:
    """When the present call ends. Waits for one piece last `piece_seconds` at most."""

    def __init__(self, piece_seconds: float) -> None:
        self.piece_seconds = piece_seconds
        self._until = float("inf")

    def start(self, seconds: float) -> None:
        """A call begins that may take so long."""
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until the call has to be over; below 0 afterwards."""
        return self._until - time.monotonic()

    def wait_seconds(self, most: float | None = None) -> float:
        """How long the next piece may be waited for. Raises TimeoutError where there is no time left."""
        left = min(self.left, self.piece_seconds if most is None else most)
        if left <= 0:
            raise TimeoutError("the time of the whole call is over")
        return left


class BoundedAdapter(HTTPAdapter):
    """What a session sends http and https with, so that it keeps to a deadline; SOCKS proxies have their own."""

    def __init__(self, deadline: Deadline) -> None:
        # Before the rest is made, which makes pools.
        self._pools = _pools(deadline)
        super().__init__()

    def init_poolmanager(self, *args: Any, **how: Any) -> None:  # noqa: ANN401 - as requests has them
        """As requests makes it, of bounded connections."""
        super().init_poolmanager(*args, **how)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **how: Any) -> Any:  # noqa: ANN401 - as requests has them
        """The same for what goes through a proxy."""
        manager = super().proxy_manager_for(proxy, **how)
        if proxy.lower().startswith("http"):
            manager.pool_classes_by_scheme = self._pools
        return manager


def _pools(deadline: Deadline) -> dict[str, type[HTTPConnectionPool]]:
    plain = type("_Plain", (_Bounded, HTTPConnection), {"deadline": deadline})
    secure = type("_Secure", (_Bounded, HTTPSConnection), {"deadline": deadline})
    return {
        "http": type("_PlainPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("_SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
    }


class _Bounded:
    """What such a connection does before each piece."""

    deadline: Deadline
    sock: Any
    timeout: Any

    def __init__(self, *args: Any, **how: Any) -> None:  # noqa: ANN401 - as urllib3 has them
        super().__init__(*args, **how)
        self.response_class = partial(_Reply, self.deadline)

    def connect(self) -> None:
        self.timeout = self.deadline.wait_seconds(self.timeout)
        super().connect()  # type: ignore[misc]

    def send(self, data: Any) -> None:  # noqa: ANN401 - as http.client has it
        pieces = _cut(data) if isinstance(data, bytes) else (data,)
        for piece in pieces:
            if self.sock is not None:
                self.sock.settimeout(self.deadline.wait_seconds())
            super().send(piece)  # type: ignore[misc]


def _cut(data: bytes) -> list[memoryview]:
    whole = memoryview(data)
    return [whole[start : start + _PIECE_BYTES] for start in range(0, len(data), _PIECE_BYTES)]


class _Reply(HTTPResponse):
    """An answer that is read piece by piece."""

    def __init__(self, deadline: Deadline, sock: socket.socket, *args: Any, **how: Any) -> None:  # noqa: ANN401
        super().__init__(sock, *args, **how)
        self.fp: io.BufferedReader = io.BufferedReader(_Pieces(self.fp.detach(), sock, deadline))


class _Pieces(io.RawIOBase):
    """What a socket receives."""

    def __init__(self, received: io.RawIOBase, sock: socket.socket, deadline: Deadline) -> None:
        self._received, self._sock, self._deadline = received, sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        self._sock.settimeout(self._deadline.wait_seconds())
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()
