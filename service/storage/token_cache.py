"""Tokens as requests look them up: from memory for a few seconds, so that a token costs no SQL on each request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import Final

from sqlalchemy import Engine

from service.storage.database import reading
from service.storage.tokens import Token, find_token, is_secret_of, public_id_of

_KEPT: Final = 1024


class TokenCache:
    """Finds usable tokens; a token revoked in the database is refused here after at most `seconds`.

    Only tokens that exist are kept: each try with an unknown one asks the database, so a new one works at once.
    """

    def __init__(self, database: Engine, seconds: float = 5.0, clock: Callable[[], float] = monotonic) -> None:
        self._database = database
        self._seconds = seconds
        self._clock = clock
        self._kept: dict[str, tuple[float, Token]] = {}
        self._lock = Lock()

    def find(self, text: str) -> Token | None:
        """The token of that text; None where it is unknown, wrong, expired or revoked, whichever it is."""
        public_id = public_id_of(text)
        if public_id is None:
            return None
        token = self._by_id(public_id)
        if not is_secret_of(token, text) or token is None:
            return None
        return token if token.usable(datetime.now(UTC)) else None

    def _by_id(self, public_id: str) -> Token | None:
        kept = self._kept.get(public_id)
        now = self._clock()
        if kept is not None and now - kept[0] < self._seconds:
            return kept[1]
        with reading(self._database) as connection:
            token = find_token(connection, public_id)
        self._keep(public_id, now, token)
        return token

    def _keep(self, public_id: str, read_at: float, token: Token | None) -> None:
        with self._lock:
            self._kept.pop(public_id, None)
            if token is not None:
                self._kept[public_id] = (read_at, token)
                if len(self._kept) > _KEPT:
                    del self._kept[next(iter(self._kept))]
