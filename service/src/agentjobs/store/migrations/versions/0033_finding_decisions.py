"""Vulnerabilities that somebody dismissed or snoozed."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Apart from `findings`, whose rows scans replace.
    op.create_table(
        "finding_decisions",
        sa.Column("repo_id", sa.Text, sa.ForeignKey("repos.id"), primary_key=True),
        *(
            sa.Column(name, sa.Text, primary_key=True)
            for name in ("ecosystem", "name", "advisory_id")
        ),
        sa.Column("organization_id", sa.Text, nullable=False),
        # dismissed or snoozed; why, as one of several reasons and in words.
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        # When a snoozed vulnerability returns.
        sa.Column("until", sa.BigInteger, nullable=True),
        sa.Column("decided_by", sa.Text, nullable=True),
        sa.Column("decided_by_name", sa.Text, nullable=False),
        sa.Column("decided_at", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "finding_decisions_until",
        "finding_decisions",
        ["until"],
        sqlite_where=sa.text("until IS NOT NULL"),
        postgresql_where=sa.text("until IS NOT NULL"),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
