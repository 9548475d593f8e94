"""Uploaders that never give up, and what the database must hold once they are done.

Only what was answered counts as taken: a connection that broke is neither success nor failure, and is tried again.
"""

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fleet import GIB, H100, capacity_row, memory_row

ROWS_AT_ONCE = 20
_TAKEN = frozenset({"accepted", "unmatched", "quarantined", "duplicate"})
_PATIENCE_SECONDS = 20


@dataclass(slots=True)
class Ledger:
    """What was answered to all uploaders together."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    taken: set[str] = field(default_factory=set)
    stored_once: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    without_retry: int = 0

    def note(self, status: int, retry_after: str | None, body: bytes) -> bool:
        """Whether the upload is done."""
        with self.lock:
            self.statuses[status] += 1
            if status == 503 and not retry_after:
                self.without_retry += 1
            if status != 200:
                return False
            for item in json.loads(body)["items"]:
                if item["verdict"] in _TAKEN:
                    self.taken.add(item["id"])
                if item["verdict"] in _TAKEN - {"duplicate"}:
                    self.stored_once[item["id"]] += 1
            return True


def flood(port: int, token: Mapping[str, str], uploaders: int, seconds: float, during: Callable[[], None]) -> Ledger:
    """So many uploaders at once for so long, in any order and often twice, while something happens."""
    ledger, until = Ledger(), time.monotonic() + seconds
    threads = [
        threading.Thread(target=_upload, args=(port, token, number, until, ledger), daemon=True)
        for number in range(uploaders)
    ]
    for thread in threads:
        thread.start()
    during()
    for thread in threads:
        thread.join(seconds + 4 * _PATIENCE_SECONDS)
    return ledger


def _upload(port: int, token: Mapping[str, str], number: int, until: float, ledger: Ledger) -> None:
    chance = random.Random(number)
    waiting: list[list[dict[str, Any]]] = []
    batch = 0
    while time.monotonic() < until:
        waiting.append(_rows(number, batch))
        batch += 1
        if len(waiting) > 3:
            rows = waiting.pop(chance.randrange(len(waiting)))
            for _ in range(1 + (chance.random() < 0.25)):
                _until_taken(port, token, rows, ledger)
    for rows in waiting:
        _until_taken(port, token, rows, ledger)


def _rows(number: int, batch: int) -> list[dict[str, Any]]:
    """Rows of each verdict, every one with an id of its own."""
    first = batch * ROWS_AT_ONCE
    rows: list[dict[str, Any]] = [
        memory_row(number + 1, 84_929_347_584 + (number % 5 << 20), number=first + n) for n in range(ROWS_AT_ONCE - 3)
    ]
    rows.append(capacity_row(number + 1, 1.0 * GIB, number=first))
    rows.append(memory_row(number + 1, 24 << 30, gpu="RTX 9090", number=first))
    rows.append({**memory_row(number + 1, 300 * GIB, gpu=H100, number=first + ROWS_AT_ONCE - 1)})
    return rows


def _until_taken(port: int, token: Mapping[str, str], rows: list[dict[str, Any]], ledger: Ledger) -> None:
    body = json.dumps({"items": rows}).encode()
    give_up = time.monotonic() + 3 * _PATIENCE_SECONDS
    while time.monotonic() < give_up:
        status, retry_after, answer = _posted(port, token, body)
        if ledger.note(status, retry_after, answer):
            return
        time.sleep(0.2)


def _posted(port: int, token: Mapping[str, str], body: bytes) -> tuple[int, str | None, bytes]:
    """Status 0 where the connection broke."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("POST", "/measurements", body, {"Content-Type": "application/json", **token})
        answer = connection.getresponse()
        return answer.status, answer.headers.get("Retry-After"), answer.read()
    except (OSError, http.client.HTTPException):
        return 0, None, b""
    finally:
        connection.close()
