"""The tables and their constraints, without behaviour."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
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


class Base(DeclarativeBase):
    """Base of all tables."""

    metadata = MetaData(naming_convention=_NAMES)
    # JSON and not JSONB: facts are read whole, and JSONB would reorder keys and respell numbers on one database only.
    type_annotation_map: ClassVar[dict[Any, Any]] = {datetime: UtcDateTime, dict[str, Any]: JSON}


class CatalogRevision(Base):
    """One change of the catalog, whole: who made it, when, and where it came from."""

    __tablename__ = "catalog_revision"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    made_at: Mapped[datetime]
    author: Mapped[str] = mapped_column(Text)
    origin: Mapped[str] = mapped_column(String(40))
    summary: Mapped[str] = mapped_column(Text)

    __table_args__ = (CheckConstraint("id > 0", name="id_positive"), Index(None, "made_at"))


class CatalogEntry(Base):
    """What the catalog says now, one row an entry; `origin` is that of the revision it last changed in."""

    __tablename__ = "catalog_entry"

    kind: Mapped[str] = mapped_column(Kind, primary_key=True)
    id: Mapped[str] = mapped_column(Slug, primary_key=True)
    facts: Mapped[dict[str, Any]]
    digest: Mapped[str] = mapped_column(String(64))
    revision: Mapped[int] = mapped_column(Integer, ForeignKey("catalog_revision.id"), index=True)
    origin: Mapped[str] = mapped_column(String(40))


class CatalogChange(Base):
    """Every state an entry ever had, by the revision that brought it; a deletion has neither facts nor digest."""

    __tablename__ = "catalog_change"

    revision: Mapped[int] = mapped_column(ForeignKey("catalog_revision.id"), primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(Kind, primary_key=True)
    id: Mapped[str] = mapped_column(Slug, primary_key=True)
    action: Mapped[str] = mapped_column(String(8))
    facts: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    digest: Mapped[str | None] = mapped_column(String(64))

    __table_args__ = (
        CheckConstraint("action IN ('created', 'changed', 'deleted')", name="action_known"),
        CheckConstraint("(action = 'deleted') = (digest IS NULL)", name="facts_unless_deleted"),
        Index(None, "kind", "id", "revision"),
    )


class ApiToken(Base):
    """Who may do what: a token's digest, never the token. A revoked one stays, for the audit names it."""

    __tablename__ = "api_token"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    created_by: Mapped[str] = mapped_column(Text)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class AuditEvent(Base):
    """Who did what to what, written in the transaction that did it; triggers of the migration refuse to change it."""

    __tablename__ = "audit_event"

    id: Mapped[int] = mapped_column(primary_key=True)
    happened_at: Mapped[datetime]
    actor: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(String(40))
    subject: Mapped[str] = mapped_column(Text)
    revision: Mapped[int | None] = mapped_column(ForeignKey("catalog_revision.id"))
    request_id: Mapped[str | None] = mapped_column(String(64))
    before_digest: Mapped[str | None] = mapped_column(String(64))
    after_digest: Mapped[str | None] = mapped_column(String(64))
    note: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (Index(None, "happened_at"),)


class TrustDecision(Base):
    """Whether rows of a probe or a token are believed from now on; the newest decision on a sender holds.

    Rows stored before it, up to `last_seq`, are judged by it up to `done_seq`. `since` is a time of arrival.
    """

    __tablename__ = "trust_decision"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    made_at: Mapped[datetime]
    author: Mapped[str] = mapped_column(Text)
    sender: Mapped[str] = mapped_column(String(8))
    sender_id: Mapped[str] = mapped_column(String(36))
    trusted: Mapped[bool] = mapped_column(Boolean)
    since: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(Text)
    done_seq: Mapped[int] = mapped_column(BigInteger)
    last_seq: Mapped[int] = mapped_column(BigInteger)


class CalibrationRevision(Base):
    """One change of what was learned: from how many samples, compared with which catalog."""

    __tablename__ = "calibration_revision"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    made_at: Mapped[datetime] = mapped_column(index=True)
    catalog_revision: Mapped[int]
    samples: Mapped[int] = mapped_column(BigInteger)


class CalibrationValue(Base):
    """What a rung knew of a quantity from one revision on, until another one ended it; `content` as JSON."""

    __tablename__ = "calibration_value"

    quantity: Mapped[str] = mapped_column(String(40), primary_key=True)
    key: Mapped[str] = mapped_column(
        String(700).with_variant(String(700, collation="C"), "postgresql"), primary_key=True
    )
    revision: Mapped[int] = mapped_column(ForeignKey("calibration_revision.id"), primary_key=True)
    ended_revision: Mapped[int | None] = mapped_column(index=True)
    usable: Mapped[bool] = mapped_column(Boolean)
    gpu: Mapped[str | None] = mapped_column(Slug)
    engine: Mapped[str | None] = mapped_column(Slug)
    rung: Mapped[str] = mapped_column(String(80))
    content: Mapped[str] = mapped_column(Text)
