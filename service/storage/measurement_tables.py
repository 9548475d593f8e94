"""The tables of measurements and of what is learned from them, without behaviour.

In a module of their own: a process that only quotes has no use for them, and mapping them takes longer than to read the
catalog.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, Boolean, Connection, Index, Integer, LargeBinary, String, Table, Text, event, text
from sqlalchemy.orm import Mapped, mapped_column

from service.storage.tables import Base, Kind, Slug


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
