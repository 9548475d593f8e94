"""The tables of measurements and of what is learned from them, without behaviour.

In a module of their own: a process that only quotes has no use for them, and mapping them takes longer than to read the
catalog.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    Uuid,
    event,
    text,
)

from service.storage.database import UtcDateTime
from service.storage.tables import METADATA, Kind, Slug

MEASUREMENT: Final = Table(
    "measurement",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("id", Uuid, unique=True, nullable=False),
    Column("probe_id", Uuid, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("measured_at", UtcDateTime, nullable=False),
    Column("received_at", UtcDateTime, nullable=False),
    Column("token_id", String(16), nullable=False),
    Column("gpu_name", Slug),
    Column("model_name", Slug),
    Column("engine", Slug),
    Column("verdict", String(16), nullable=False),
    Column("detail", Text),
    Column("catalog_revision", Integer, nullable=False),
    Column("clock_skew_seconds", Double),
    Column("digest", LargeBinary(16), nullable=False),
    Column("content", Text, nullable=False),
    Index(None, "measured_at", "seq"),
    Index(None, "gpu_name", "measured_at", "seq"),
    Index(None, "probe_id", "measured_at", "seq"),
    # Half of the kinds are about no model, and every index is paid for with each row. Few rows are not accepted;
    # an index of the many would be read by nobody.
    Index(None, "model_name", "measured_at", "seq", info={"where": "model_name IS NOT NULL"}),
    Index(None, "verdict", "measured_at", "seq", info={"where": "verdict <> 'accepted'"}),
)
"""One row as a probe sent it, in its normal form, with what it was last taken for.

`gpu_name` and `model_name` are folded: what a catalog that learns is asked again. `digest` tells a repeat from
another row of the same id.
"""


@event.listens_for(MEASUREMENT, "before_create")
def _add_conditions(table: Table, connection: Connection, **_: object) -> None:
    """Make the indexes with a condition partial; said with the index, it would load the drivers of both databases."""
    for index in table.indexes:
        if "where" in index.info:
            index.dialect_options[connection.dialect.name]["where"] = text(index.info["where"])


MEASUREMENT_NAME: Final = Table(
    "measurement_name",
    METADATA,
    Column("kind", Kind, primary_key=True),
    Column("name", Slug, primary_key=True),
    Column("entry_id", Slug),
    Column("entry_revision", Integer),
    Column("pending", Boolean, nullable=False),
    Column("done_at", UtcDateTime),
    Column("done_seq", BigInteger, nullable=False),
)
"""A name that rows gave a GPU or a model, and the entry it led to when they were last judged.

While `pending`, rows after (`done_at`, `done_seq`) still wait to be judged by what the name leads to now.
"""


MEASUREMENT_PROBE: Final = Table(
    "measurement_probe",
    METADATA,
    Column("probe_id", Uuid, primary_key=True),
    Column("first_received_at", UtcDateTime, nullable=False),
    Column("last_received_at", UtcDateTime, nullable=False),
    Column("last_measured_at", UtcDateTime, nullable=False),
    Column("accepted", BigInteger, nullable=False),
    Column("unmatched", BigInteger, nullable=False),
    Column("quarantined", BigInteger, nullable=False),
)
"""Who reported, when, and how much of it was taken for what: kept with each insert, so that nobody counts rows."""


MEASUREMENT_STATE: Final = Table(
    "measurement_state",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("catalog_revision", Integer, nullable=False),
    Column("rules", Integer, nullable=False),
)
"""One row: no row was judged by an older catalog or by older rules than these, but those of pending names."""


UPLOAD_BUDGET: Final = Table(
    "upload_budget",
    METADATA,
    Column("token_id", String(16), primary_key=True),
    Column("minute", BigInteger, nullable=False),
    Column("rows_sent", BigInteger, nullable=False),
    Column("bytes_sent", BigInteger, nullable=False),
)
"""What a token sent in the minute it last sent something in; minutes are counted from 1970."""


LEARNING_SAMPLE: Final = Table(
    "learning_sample",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("probe_id", Uuid, nullable=False),
    Column("cell", String(32), nullable=False),
    Column("measured_at", UtcDateTime, nullable=False),
    Column("catalog_revision", Integer, index=True, nullable=False),
    Column("content", Text, nullable=False),
    Index(None, "probe_id", "cell", "measured_at", "seq"),
)
"""What one accepted row teaches, of the newest few of each probe and cell: all that learning ever reads.

A cell is the finest circumstances that the row was measured under; `content` its scope and observations as JSON,
compared with the catalog of `catalog_revision`.
"""


LEARNING_QUEUE: Final = Table(
    "learning_queue",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
)
"""Rows whose verdict changed after learning had passed them."""


LEARNING_STATE: Final = Table(
    "learning_state",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("rules", Integer, nullable=False),
    Column("taken", BigInteger, nullable=False),
    Column("learned", BigInteger, nullable=False),
)
"""One row: the last row that was looked at, how often samples changed, and of these how many were learned from."""


ACCURACY_GROUP: Final = Table(
    "accuracy_group",
    METADATA,
    Column("family", Slug, primary_key=True),
    Column("gpu", Slug, primary_key=True),
    Column("engine", Slug, primary_key=True),
    Column("version", Slug, primary_key=True),
    Column("figure", String(40), primary_key=True),
    Column("newest_at", UtcDateTime, nullable=False),
    Column("content", Text, nullable=False),
)
"""How quotes of one family, GPU, engine, version and figure fared; `content` sums up its newest scores as JSON."""


ACCURACY_SCORE: Final = Table(
    "accuracy_score",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("group_key", String(32), nullable=False),
    Column("probe_id", Uuid, nullable=False),
    Column("received_at", UtcDateTime, nullable=False),
    Column("error", Double, nullable=False),
    Column("learned_error", Double),
    Column("inside", Boolean, nullable=False),
    Column("band", Double, nullable=False),
    Column("catalog_revision", Integer, nullable=False),
    Column("calibration_revision", Integer, nullable=False),
    Column("token_id", String(16)),
    Index(None, "group_key", "seq"),
)
"""One measured ceiling or capacity beside what would have been quoted before it came; of each group the newest."""
