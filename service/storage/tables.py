"""The tables and their constraints, without behaviour."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Connection,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
    text,
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


class Measurement(Base):
    """One row as a probe sent it, in its normal form, with what it was last taken for.

    `gpu_name` and `model_name` are folded: what a catalog that learns is asked again. `digest` tells a repeat from
    another row of the same id.
    """

    __tablename__ = "measurement"

    seq: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    id: Mapped[UUID] = mapped_column(unique=True)
    probe_id: Mapped[UUID]
    kind: Mapped[str] = mapped_column(String(64))
    measured_at: Mapped[datetime]
    received_at: Mapped[datetime]
    token_id: Mapped[str] = mapped_column(String(16))
    gpu_name: Mapped[str | None] = mapped_column(Slug)
    model_name: Mapped[str | None] = mapped_column(Slug)
    engine: Mapped[str | None] = mapped_column(Slug)
    verdict: Mapped[str] = mapped_column(String(16))
    detail: Mapped[str | None] = mapped_column(Text)
    catalog_revision: Mapped[int]
    clock_skew_seconds: Mapped[float | None]
    digest: Mapped[bytes] = mapped_column(LargeBinary(16))
    content: Mapped[str] = mapped_column(Text)

    __table_args__ = (
        Index(None, "measured_at", "seq"),
        Index(None, "gpu_name", "measured_at", "seq"),
        Index(None, "probe_id", "measured_at", "seq"),
        # Half of the kinds are about no model, and every index is paid for with each row. Few rows are not accepted;
        # an index of the many would be read by nobody.
        Index(None, "model_name", "measured_at", "seq", info={"where": "model_name IS NOT NULL"}),
        Index(None, "verdict", "measured_at", "seq", info={"where": "verdict <> 'accepted'"}),
    )


@event.listens_for(Measurement.__table__, "before_create")
def _add_conditions(table: Table, connection: Connection, **_: object) -> None:
    """Make the indexes with a condition partial; said with the index, it would load the drivers of both databases."""
    for index in table.indexes:
        if "where" in index.info:
            index.dialect_options[connection.dialect.name]["where"] = text(index.info["where"])


class MeasurementName(Base):
    """A name that rows gave a GPU or a model, and the entry it led to when they were last judged.

    While `pending`, rows after (`done_at`, `done_seq`) still wait to be judged by what the name leads to now.
    """

    __tablename__ = "measurement_name"

    kind: Mapped[str] = mapped_column(Kind, primary_key=True)
    name: Mapped[str] = mapped_column(Slug, primary_key=True)
    entry_id: Mapped[str | None] = mapped_column(Slug)
    entry_revision: Mapped[int | None]
    pending: Mapped[bool] = mapped_column(Boolean)
    done_at: Mapped[datetime | None]
    done_seq: Mapped[int] = mapped_column(BigInteger)


class MeasurementProbe(Base):
    """Who reported, when, and how much of it was taken for what: kept with each insert, so that nobody counts rows."""

    __tablename__ = "measurement_probe"

    probe_id: Mapped[UUID] = mapped_column(primary_key=True)
    first_received_at: Mapped[datetime]
    last_received_at: Mapped[datetime]
    last_measured_at: Mapped[datetime]
    accepted: Mapped[int] = mapped_column(BigInteger)
    unmatched: Mapped[int] = mapped_column(BigInteger)
    quarantined: Mapped[int] = mapped_column(BigInteger)


class MeasurementState(Base):
    """One row: no row was judged by an older catalog or by older rules than these, but those of pending names."""

    __tablename__ = "measurement_state"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    catalog_revision: Mapped[int]
    rules: Mapped[int]


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


class UploadBudget(Base):
    """What a token sent in the minute it last sent something in; minutes are counted from 1970."""

    __tablename__ = "upload_budget"

    token_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    minute: Mapped[int] = mapped_column(BigInteger)
    rows_sent: Mapped[int] = mapped_column(BigInteger)
    bytes_sent: Mapped[int] = mapped_column(BigInteger)


class LearningSample(Base):
    """What one accepted row teaches, of the newest few of each probe and cell: all that learning ever reads.

    A cell is the finest circumstances that the row was measured under; `content` its scope and observations as JSON,
    compared with the catalog of `catalog_revision`.
    """

    __tablename__ = "learning_sample"

    seq: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    probe_id: Mapped[UUID]
    cell: Mapped[str] = mapped_column(String(32))
    measured_at: Mapped[datetime]
    catalog_revision: Mapped[int] = mapped_column(index=True)
    content: Mapped[str] = mapped_column(Text)

    __table_args__ = (Index(None, "probe_id", "cell", "measured_at", "seq"),)


class LearningQueue(Base):
    """Rows whose verdict changed after learning had passed them."""

    __tablename__ = "learning_queue"

    seq: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


class LearningState(Base):
    """One row: the last row that was looked at, how often samples changed, and of these how many were learned from."""

    __tablename__ = "learning_state"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(BigInteger)
    rules: Mapped[int]
    taken: Mapped[int] = mapped_column(BigInteger)
    learned: Mapped[int] = mapped_column(BigInteger)


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


class AccuracyGroup(Base):
    """How quotes of one family, GPU, engine, version and figure fared; `content` sums up its newest scores as JSON."""

    __tablename__ = "accuracy_group"

    family: Mapped[str] = mapped_column(Slug, primary_key=True)
    gpu: Mapped[str] = mapped_column(Slug, primary_key=True)
    engine: Mapped[str] = mapped_column(Slug, primary_key=True)
    version: Mapped[str] = mapped_column(Slug, primary_key=True)
    figure: Mapped[str] = mapped_column(String(40), primary_key=True)
    newest_at: Mapped[datetime]
    content: Mapped[str] = mapped_column(Text)


class AccuracyScore(Base):
    """One measured ceiling or capacity beside what would have been quoted before it came; of each group the newest."""

    __tablename__ = "accuracy_score"

    seq: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    group_key: Mapped[str] = mapped_column(String(32))
    probe_id: Mapped[UUID]
    received_at: Mapped[datetime]
    error: Mapped[float]
    learned_error: Mapped[float | None]
    inside: Mapped[bool] = mapped_column(Boolean)
    band: Mapped[float]
    catalog_revision: Mapped[int]
    calibration_revision: Mapped[int]
    token_id: Mapped[str | None] = mapped_column(String(16))

    __table_args__ = (Index(None, "group_key", "seq"),)
