"""What measurements taught: samples, learned values with their history, and how quotes fared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def _name(length: int = 200) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def _seq() -> sa.Column[int]:
    return sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False)


def upgrade() -> None:
    _create_samples()
    op.create_table("learning_queue", _seq(), sa.PrimaryKeyConstraint("seq", name=op.f("pk_learning_queue")))
    op.create_table(
        "learning_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("rules", sa.Integer(), nullable=False),
        sa.Column("taken", sa.BigInteger(), nullable=False),
        sa.Column("learned", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_learning_state")),
    )
    _create_calibrations()
    _create_scores()


def _create_samples() -> None:
    op.create_table(
        "learning_sample",
        _seq(),
        sa.Column("probe_id", sa.Uuid(), nullable=False),
        sa.Column("cell", sa.String(32), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("catalog_revision", sa.Integer(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_learning_sample")),
    )
    _index("learning_sample", "catalog_revision")
    _index("learning_sample", "probe_id", "cell", "measured_at", "seq")


def _index(table: str, *columns: str) -> None:
    op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))


def _create_calibrations() -> None:
    op.create_table(
        "calibration_revision",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("catalog_revision", sa.Integer(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibration_revision")),
    )
    _index("calibration_revision", "made_at")
    op.create_table(
        "calibration_value",
        sa.Column("quantity", sa.String(40), nullable=False),
        sa.Column("key", _name(700), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("ended_revision", sa.Integer(), nullable=True),
        sa.Column("usable", sa.Boolean(), nullable=False),
        sa.Column("gpu", _name(), nullable=True),
        sa.Column("engine", _name(), nullable=True),
        sa.Column("rung", sa.String(80), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision"],
            ["calibration_revision.id"],
            name=op.f("fk_calibration_value_revision_calibration_revision"),
        ),
        sa.PrimaryKeyConstraint("quantity", "key", "revision", name=op.f("pk_calibration_value")),
    )
    _index("calibration_value", "ended_revision")


def _create_scores() -> None:
    op.create_table(
        "accuracy_group",
        *(sa.Column(name, _name(), nullable=False) for name in ("family", "gpu", "engine", "version")),
        sa.Column("figure", sa.String(40), nullable=False),
        sa.Column("newest_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("family", "gpu", "engine", "version", "figure", name=op.f("pk_accuracy_group")),
    )
    op.create_table(
        "accuracy_score",
        _seq(),
        sa.Column("group_key", sa.String(32), nullable=False),
        sa.Column("probe_id", sa.Uuid(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.Double(), nullable=False),
        sa.Column("learned_error", sa.Double(), nullable=True),
        sa.Column("inside", sa.Boolean(), nullable=False),
        sa.Column("band", sa.Double(), nullable=False),
        sa.Column("catalog_revision", sa.Integer(), nullable=False),
        sa.Column("calibration_revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_accuracy_score")),
    )
    _index("accuracy_score", "group_key", "seq")


def downgrade() -> None:
    for table in (
        *("accuracy_score", "accuracy_group", "calibration_value", "calibration_revision"),
        *("learning_state", "learning_queue", "learning_sample"),
    ):
        op.drop_table(table)
