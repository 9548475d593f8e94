"""Tokens for those who may write, and an audit that only grows: who did what, in the transaction that did it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None

_REFUSAL = "the audit is append-only"


def upgrade() -> None:
    _create_token()
    _create_audit()
    if op.get_context().dialect.name == "postgresql":
        _refuse_changes_postgresql()
    else:
        _refuse_changes_sqlite()


def _create_token() -> None:
    op.create_table(
        "api_token",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
    )


def _create_audit() -> None:
    op.create_table(
        "audit_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("happened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=True),
        sa.Column("request_id", sa.String(64), nullable=True),
        sa.Column("before_digest", sa.String(64), nullable=True),
        sa.Column("after_digest", sa.String(64), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["revision"], ["catalog_revision.id"], name=op.f("fk_audit_event_revision_catalog_revision")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_event")),
    )
    op.create_index(op.f("ix_audit_event_happened_at"), "audit_event", ["happened_at"])


def _refuse_changes_sqlite() -> None:
    for event in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_event_refuses_{event.lower()} BEFORE {event} ON audit_event "
            f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
        )


def _refuse_changes_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION audit_event_refuse() RETURNS trigger LANGUAGE plpgsql "
        f"AS $$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_event_refuses_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_event "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_event_refuse()"
    )


def downgrade() -> None:
    op.drop_table("audit_event")
    if op.get_context().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_event_refuse()")
    op.drop_table("api_token")
