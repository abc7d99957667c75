"""What jobs leave besides a pull request, their labels, and the order of events."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # As JSON; NULL: none.
    op.add_column("jobs", sa.Column("labels", sa.Text, nullable=True))
    # The same labels again, to find jobs by them.
    op.create_table(
        "job_labels",
        sa.Column("organization_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, primary_key=True),
        sa.Column("job_id", sa.Text, primary_key=True),
    )
    op.create_index("job_labels_of_job", "job_labels", ["job_id"])
    op.create_table(
        "job_artifacts",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "job_diffs",
        sa.Column("job_id", sa.Text, primary_key=True),
        # The unified diff, compressed with zlib.
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("is_truncated", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "job_reports",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("markdown", sa.Text, nullable=False),
        # JSON that fits the agent's schema; NULL: the agent has none.
        sa.Column("result", sa.Text, nullable=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    # NULL: stored by an earlier version, or no event of a job. Such events are not listed.
    op.add_column("events", sa.Column("organization_id", sa.Text, nullable=True))
    # Given when the event is first listed, in the order of commits; NULL before.
    op.add_column("events", sa.Column("position", sa.BigInteger, nullable=True))
    op.create_table(
        "event_positions",
        sa.Column("organization_id", sa.Text, primary_key=True),
        sa.Column("last_position", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
