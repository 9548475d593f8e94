"""Whose measurements are not believed, decision by decision; scores know the token that brought their rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "trust_decision",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("sender", sa.String(8), nullable=False),
        sa.Column("sender_id", sa.String(36), nullable=False),
        sa.Column("trusted", sa.Boolean(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("done_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trust_decision")),
    )
    op.add_column("accuracy_score", sa.Column("token_id", sa.String(16), nullable=True))
    # Of rows that were thinned nobody knows it any more.
    op.execute(
        "UPDATE accuracy_score SET token_id = (SELECT token_id FROM measurement "
        "WHERE measurement.seq = accuracy_score.seq)"
    )


def downgrade() -> None:
    op.drop_column("accuracy_score", "token_id")
    op.drop_table("trust_decision")
