"""What a queued job waits for besides its platform, warnings of jobs, branches to delete."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The key of an outage in platform_outages: that of a tracker which did not respond.
    op.add_column("jobs", sa.Column("waits_for", sa.Text, nullable=True))
    # A JSON list of messages; NULL if there are none.
    op.add_column("jobs", sa.Column("warnings", sa.Text, nullable=True))
    # Of finished work on platforms, until they are deleted there.
    op.create_table(
        "finished_branches",
        sa.Column("repo_id", sa.Text, primary_key=True),
        sa.Column("branch", sa.Text, primary_key=True),
        sa.Column("head_commit", sa.Text, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
