"""The tables and their constraints, without behaviour.

Tables and not mapped classes: statements say what they read and write, and the first answer of a process does not wait
for an object mapper.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.types import TypeEngine

from service.storage.database import UtcDateTime

# Named from the first migration on, so that a later one can drop what it names on either database.
_NAMES: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# Ids sort by their bytes on both databases: a page of a list must not depend on the server's locale.
Slug: Final[TypeEngine[str]] = String(200).with_variant(String(200, collation="C"), "postgresql")

# A text, so that kinds can be added without a migration and older copies of the service skip rows of a new kind.
Kind: Final = String(16)


METADATA: Final = MetaData(naming_convention=_NAMES)

# Facts are JSON and not JSONB: they are read whole, and JSONB would reorder keys and respell numbers on one database
# only.

CATALOG_REVISION: Final = Table(
    "catalog_revision",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("made_at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("origin", String(40), nullable=False),
    Column("summary", Text, nullable=False),
    CheckConstraint("id > 0", name="id_positive"),
    Index(None, "made_at"),
)
"""One change of the catalog, whole: who made it, when, and where it came from."""


CATALOG_ENTRY: Final = Table(
    "catalog_entry",
    METADATA,
    Column("kind", Kind, primary_key=True),
    Column("id", Slug, primary_key=True),
    Column("facts", JSON, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("revision", Integer, ForeignKey("catalog_revision.id"), index=True, nullable=False),
    Column("origin", String(40), nullable=False),
)
"""What the catalog says now, one row an entry; `origin` is that of the revision it last changed in."""


CATALOG_CHANGE: Final = Table(
    "catalog_change",
    METADATA,
    Column("revision", Integer, ForeignKey("catalog_revision.id"), primary_key=True, autoincrement=False),
    Column("kind", Kind, primary_key=True),
    Column("id", Slug, primary_key=True),
    Column("action", String(8), nullable=False),
    Column("facts", JSON(none_as_null=True)),
    Column("digest", String(64)),
    CheckConstraint("action IN ('created', 'changed', 'deleted')", name="action_known"),
    CheckConstraint("(action = 'deleted') = (digest IS NULL)", name="facts_unless_deleted"),
    Index(None, "kind", "id", "revision"),
)
"""Every state an entry ever had, by the revision that brought it; a deletion has neither facts nor digest."""


API_TOKEN: Final = Table(
    "api_token",
    METADATA,
    Column("id", String(16), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
)
"""Who may do what: a token's digest, never the token. A revoked one stays, for the audit names it."""


AUDIT_EVENT: Final = Table(
    "audit_event",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("happened_at", UtcDateTime, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", String(40), nullable=False),
    Column("subject", Text, nullable=False),
    Column("revision", Integer, ForeignKey("catalog_revision.id")),
    Column("request_id", String(64)),
    Column("before_digest", String(64)),
    Column("after_digest", String(64)),
    Column("note", Text),
    Index(None, "happened_at"),
)
"""Who did what to what, written in the transaction that did it; triggers of the migration refuse to change it."""


TRUST_DECISION: Final = Table(
    "trust_decision",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("made_at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("sender", String(8), nullable=False),
    Column("sender_id", String(36), nullable=False),
    Column("trusted", Boolean, nullable=False),
    Column("since", UtcDateTime),
    Column("reason", Text, nullable=False),
    Column("done_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
)
"""Whether rows of a probe or a token are believed from now on; the newest decision on a sender holds.

Rows stored before it, up to `last_seq`, are judged by it up to `done_seq`. `since` is a time of arrival.
"""


CALIBRATION_REVISION: Final = Table(
    "calibration_revision",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("made_at", UtcDateTime, index=True, nullable=False),
    Column("catalog_revision", Integer, nullable=False),
    Column("samples", BigInteger, nullable=False),
)
"""One change of what was learned: from how many samples, compared with which catalog."""


CALIBRATION_VALUE: Final = Table(
    "calibration_value",
    METADATA,
    Column("quantity", String(40), primary_key=True),
    Column("key", String(700).with_variant(String(700, collation="C"), "postgresql"), primary_key=True),
    Column("revision", Integer, ForeignKey("calibration_revision.id"), primary_key=True),
    Column("ended_revision", Integer, index=True),
    Column("usable", Boolean, nullable=False),
    Column("gpu", Slug),
    Column("engine", Slug),
    Column("rung", String(80), nullable=False),
    Column("content", Text, nullable=False),
)
"""What a rung knew of a quantity from one revision on, until another one ended it; `content` as JSON."""
