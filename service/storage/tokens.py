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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum, unique
from hmac import compare_digest
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.storage import audit
from service.storage.tables import ApiToken

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
    session: Session, name: str, scopes: Collection[Scope], author: str, lifetime: timedelta | None
) -> tuple[Token, str]:
    """Store a new token; returns it with its text, which nobody can read again. `session` is a `write_session`."""
    public_id, text = new_secret()
    now = datetime.now(UTC)
    row = ApiToken(
        id=public_id,
        name=name,
        digest=digest_of(text),
        scopes=" ".join(sorted(scopes)),
        created_at=now,
        created_by=author,
        expires_at=None if lifetime is None else now + lifetime,
    )
    session.add(row)
    audit.record(session, audit.Event(author, "token.created", f"token/{public_id}", note=f"{name}: {row.scopes}"))
    session.flush()
    return _token(row), text


def revoke_token(session: Session, public_id: str, author: str) -> Token | None:
    """Make a token unusable from now on; None where there is none of that id. Revoking it again changes nothing."""
    row = session.get(ApiToken, public_id)
    if row is None:
        return None
    if row.revoked_at is None:
        row.revoked_at = datetime.now(UTC)
        audit.record(session, audit.Event(author, "token.revoked", f"token/{public_id}", note=row.name))
    session.flush()
    return _token(row)


def find_token(session: Session, public_id: str) -> Token | None:
    """The token of that public id, revoked and expired ones too."""
    row = session.get(ApiToken, public_id)
    return None if row is None else _token(row)


def list_tokens(session: Session) -> list[Token]:
    """Every token there ever was, the oldest first."""
    return [_token(row) for row in session.scalars(select(ApiToken).order_by(ApiToken.created_at, ApiToken.id))]


def note_use(session: Session, token: Token, now: datetime) -> None:
    """Remember that a token was used to write, to the minute; `session` is the write's own."""
    if token.last_used_at is None or now - token.last_used_at >= _USED_EVERY:
        session.execute(update(ApiToken).where(ApiToken.id == token.id).values(last_used_at=now))


def _token(row: ApiToken) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        digest=row.digest,
        scopes=frozenset(row.scopes.split()),
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECK_LETTERS)


def _base62(number: int, letters: int) -> str:
    digits = []
    for _ in range(letters):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
