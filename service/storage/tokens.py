"""Tokens: made once and shown once, kept as digests, found by their public id.

A token is `kvq_<public id>_<secret><checksum>`: the prefix lets scanners find leaked ones, the checksum tells a token
from noise without the database, and the public id names it in logs and audits. Its secret is 256 random bits, so a
plain SHA-256 is enough: there is nothing to guess that a slow hash would guard.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum, unique
from hmac import compare_digest
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, select, update

from service.storage import audit
from service.storage.tables import API_TOKEN

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_BYTES, _ID_LETTERS = 8, 11
_SECRET_BYTES, _SECRET_LETTERS = 32, 43
_CHECK_LETTERS: Final = 6
_shape: Final = re.compile(rf"kvq_([0-9A-Za-z]{{{_ID_LETTERS}}})_[0-9A-Za-z]{{{_SECRET_LETTERS + _CHECK_LETTERS}}}")

# How exact the time of a token's last write is; a write of its own for each would double the work.
_USED_EVERY: Final = timedelta(minutes=1)


@unique
class Scope(StrEnum):
    """What a token may do."""

    READ = "read"
    """Read where a setting has closed reading; every token may."""
    CATALOG_WRITE = "catalog:write"
    """Create, change and delete entries of the catalog."""
    MEASUREMENTS_WRITE = "measurements:write"
    """Upload measurements."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the database knows it; times are UTC, None for never."""

    id: str
    name: str
    digest: str
    scopes: frozenset[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    @property
    def actor(self) -> str:
        """How revisions and the audit name who used it."""
        return f"{self.name} (token {self.id})"

    def usable(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired at that moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def new_secret() -> tuple[str, str]:
    """A new public id and the whole token that goes with it."""
    public_id = _base62(int.from_bytes(secrets.token_bytes(_ID_BYTES)), _ID_LETTERS)
    secret = _base62(int.from_bytes(secrets.token_bytes(_SECRET_BYTES)), _SECRET_LETTERS)
    body = f"kvq_{public_id}_{secret}"
    return public_id, body + _checksum(body)


def public_id_of(text: str) -> str | None:
    """The public id in a token, None for what cannot be one: another shape, or a checksum that does not fit."""
    match = _shape.fullmatch(text)
    if match is None or _checksum(text[:-_CHECK_LETTERS]) != text[-_CHECK_LETTERS:]:
        return None
    return match[1]


def digest_of(text: str) -> str:
    """What is kept of a token: its SHA-256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def is_secret_of(token: Token | None, text: str) -> bool:
    """Whether the text is that token; takes as long where there is no token to compare with."""
    kept = digest_of("") if token is None else token.digest
    # Bytes: compare_digest raises TypeError for text beyond ASCII.
    return compare_digest(digest_of(text).encode(), kept.encode()) and token is not None


def create_token(
    connection: Connection, name: str, scopes: Collection[Scope], author: str, lifetime: timedelta | None
) -> tuple[Token, str]:
    """Store a new token; returns it with its text, which nobody can read again. `connection` is one of `writing`."""
    public_id, text = new_secret()
    now = datetime.now(UTC)
    token = Token(
        id=public_id,
        name=name,
        digest=digest_of(text),
        scopes=frozenset(scopes),
        created_at=now,
        created_by=author,
        expires_at=None if lifetime is None else now + lifetime,
        revoked_at=None,
        last_used_at=None,
    )
    may = " ".join(sorted(scopes))
    connection.execute(insert(API_TOKEN).values({**asdict(token), "scopes": may}))
    audit.record(connection, audit.Event(author, "token.created", f"token/{public_id}", note=f"{name}: {may}"))
    return token, text


def revoke_token(connection: Connection, public_id: str, author: str) -> Token | None:
    """Make a token unusable from now on; None where there is none of that id. Revoking it again changes nothing."""
    token = find_token(connection, public_id)
    if token is None or token.revoked_at is not None:
        return token
    revoked = replace(token, revoked_at=datetime.now(UTC))
    connection.execute(update(API_TOKEN).where(API_TOKEN.c.id == public_id).values(revoked_at=revoked.revoked_at))
    audit.record(connection, audit.Event(author, "token.revoked", f"token/{public_id}", note=token.name))
    return revoked


def find_token(connection: Connection, public_id: str) -> Token | None:
    """The token of that public id, revoked and expired ones too."""
    row = connection.execute(select(API_TOKEN).where(API_TOKEN.c.id == public_id)).one_or_none()
    return None if row is None else _token(row)


def list_tokens(connection: Connection) -> list[Token]:
    """Every token there ever was, the oldest first."""
    return [
        _token(row) for row in connection.execute(select(API_TOKEN).order_by(API_TOKEN.c.created_at, API_TOKEN.c.id))
    ]


def note_use(connection: Connection, token: Token, now: datetime) -> None:
    """Remember that a token was used to write, to the minute; `connection` is the write's own."""
    if token.last_used_at is None or now - token.last_used_at >= _USED_EVERY:
        connection.execute(update(API_TOKEN).where(API_TOKEN.c.id == token.id).values(last_used_at=now))


def _token(row: Row[Any]) -> Token:
    columns = row._asdict()
    return Token(**{**columns, "scopes": frozenset(row.scopes.split())})


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECK_LETTERS)


def _base62(number: int, letters: int) -> str:
    digits = []
    for _ in range(letters):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
