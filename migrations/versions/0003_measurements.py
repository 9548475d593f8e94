"""Measurements: the rows, the names they use, who sent them, and how much a token may send."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def _name(length: int = 200) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def upgrade() -> None:
    _create_measurement()
    _create_name()
    _create_probe()
    op.create_table(
        "measurement_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("catalog_revision", sa.Integer(), nullable=False),
        sa.Column("rules", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measurement_state")),
    )
    op.create_table(
        "upload_budget",
        sa.Column("token_id", sa.String(16), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("rows_sent", sa.BigInteger(), nullable=False),
        sa.Column("bytes_sent", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_upload_budget")),
    )


def _create_measurement() -> None:
    op.create_table(
        "measurement",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("probe_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("token_id", sa.String(16), nullable=False),
        sa.Column("gpu_name", _name(), nullable=True),
        sa.Column("model_name", _name(), nullable=True),
        sa.Column("engine", _name(), nullable=True),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("catalog_revision", sa.Integer(), nullable=False),
        sa.Column("clock_skew_seconds", sa.Double(), nullable=True),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_measurement")),
        sa.UniqueConstraint("id", name=op.f("uq_measurement_id")),
    )
    for columns in (("measured_at",), ("gpu_name", "measured_at"), ("probe_id", "measured_at")):
        _index(*columns)
    _index("model_name", "measured_at", where="model_name IS NOT NULL")
    _index("verdict", "measured_at", where="verdict <> 'accepted'")


def _index(*columns: str, where: str | None = None) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(
        op.f(f"ix_measurement_{'_'.join(columns)}_seq"),
        "measurement",
        [*columns, "seq"],
        sqlite_where=condition,
        postgresql_where=condition,
    )


def _create_name() -> None:
    op.create_table(
        "measurement_name",
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", _name(), nullable=False),
        sa.Column("entry_id", _name(), nullable=True),
        sa.Column("entry_revision", sa.Integer(), nullable=True),
        sa.Column("pending", sa.Boolean(), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("done_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_measurement_name")),
    )


def _create_probe() -> None:
    op.create_table(
        "measurement_probe",
        sa.Column("probe_id", sa.Uuid(), nullable=False),
        sa.Column("first_received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_measured_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("accepted", sa.BigInteger(), nullable=False),
        sa.Column("unmatched", sa.BigInteger(), nullable=False),
        sa.Column("quarantined", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("probe_id", name=op.f("pk_measurement_probe")),
    )


def downgrade() -> None:
    for table in ("upload_budget", "measurement_state", "measurement_probe", "measurement_name", "measurement"):
        op.drop_table(table)
