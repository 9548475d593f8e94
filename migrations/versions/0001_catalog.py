"""The catalog: its revisions, what it says now, and every state an entry ever had."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None

# Sorted by bytes on both databases, see service/storage/tables.py.
_SLUG = sa.String(200).with_variant(sa.String(200, collation="C"), "postgresql")


def upgrade() -> None:
    _create_revision()
    _create_entry()
    _create_change()


def _create_revision() -> None:
    op.create_table(
        "catalog_revision",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(40), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.CheckConstraint("id > 0", name=op.f("ck_catalog_revision_id_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalog_revision")),
    )
    op.create_index(op.f("ix_catalog_revision_made_at"), "catalog_revision", ["made_at"])


def _create_entry() -> None:
    op.create_table(
        "catalog_entry",
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("id", _SLUG, nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("origin", sa.String(40), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision"], ["catalog_revision.id"], name=op.f("fk_catalog_entry_revision_catalog_revision")
        ),
        sa.PrimaryKeyConstraint("kind", "id", name=op.f("pk_catalog_entry")),
    )
    op.create_index(op.f("ix_catalog_entry_revision"), "catalog_entry", ["revision"])


def _create_change() -> None:
    op.create_table(
        "catalog_change",
        sa.Column("revision", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("id", _SLUG, nullable=False),
        sa.Column("action", sa.String(8), nullable=False),
        sa.Column("facts", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("digest", sa.String(64), nullable=True),
        sa.CheckConstraint("action IN ('created', 'changed', 'deleted')", name=op.f("ck_catalog_change_action_known")),
        sa.CheckConstraint(
            "(action = 'deleted') = (digest IS NULL)", name=op.f("ck_catalog_change_facts_unless_deleted")
        ),
        sa.ForeignKeyConstraint(
            ["revision"], ["catalog_revision.id"], name=op.f("fk_catalog_change_revision_catalog_revision")
        ),
        sa.PrimaryKeyConstraint("revision", "kind", "id", name=op.f("pk_catalog_change")),
    )
    op.create_index(op.f("ix_catalog_change_kind_id_revision"), "catalog_change", ["kind", "id", "revision"])


def downgrade() -> None:
    op.drop_table("catalog_change")
    op.drop_table("catalog_entry")
    op.drop_table("catalog_revision")
