"""Webhooks that the service registers on platforms."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "repo_hooks",
        sa.Column("repo_id", sa.Text, primary_key=True),
        # The secret of the webhook; empty until one is registered.
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        # Why there is no webhook, or which other one serves the repository.
        sa.Column("note", sa.Text, nullable=True),
        # What the platform says about deliveries.
        sa.Column("delivery", sa.Text, nullable=False),
        sa.Column("is_failing", sa.Boolean, nullable=False),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("checked_at", sa.BigInteger, nullable=True),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("removal_due_at", sa.BigInteger, nullable=True),
    )
    op.create_index("repo_hooks_removal", "repo_hooks", ["removal_due_at"])


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
