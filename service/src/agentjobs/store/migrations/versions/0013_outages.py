"""Finished work that could not be published yet, platforms that do not respond, lost claims."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # When the job's work was kept; the work itself is in kept_work until the job has ended.
    op.add_column("jobs", sa.Column("kept_at", sa.BigInteger, nullable=True))
    op.create_table(
        "kept_work",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("base_commit", sa.Text, nullable=False),
        sa.Column("head_commit", sa.Text, nullable=False),
        sa.Column("bundle", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "platform_outages",
        # A connection, a repository, or `local` for the git server of this service.
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("retry_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "lost_claims",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("worker_id", sa.Text, nullable=False),
        sa.Column("lost_at", sa.BigInteger, nullable=False),
        # Whether the agent had started.
        sa.Column("started", sa.Boolean, nullable=False),
        # Whether the worker returned: it had only lost its connection to the database.
        sa.Column("was_alive", sa.Boolean, nullable=False),
    )
    op.create_index("lost_claims_worker", "lost_claims", ["worker_id"])


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
