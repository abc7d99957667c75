"""What the service reports on its pull requests on platforms: a commit status or check run."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pull_statuses",
        sa.Column("repo_id", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        # The latest job on the pull request.
        sa.Column("job_id", sa.Text, nullable=False),
        # When to compare what should be reported with what was written; also the writer's lease.
        sa.Column("due_at", sa.BigInteger, nullable=True),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=True),
        # What was written last.
        sa.Column("written_job_id", sa.Text, nullable=False),
        sa.Column("head_commit", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("written_at", sa.BigInteger, nullable=True),
    )
    op.create_index("pull_statuses_due", "pull_statuses", ["due_at"])


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
