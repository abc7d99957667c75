"""What agents did, step by step."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_steps",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        # 'read', 'change', 'command', 'message', 'model' or 'other'.
        sa.Column("kind", sa.Text, nullable=False),
        # 'running', 'succeeded', 'failed' or 'unfinished'.
        sa.Column("state", sa.Text, nullable=False),
        # NULL: not reported.
        sa.Column("exit_code", sa.BigInteger, nullable=True),
        sa.Column("duration_ms", sa.BigInteger, nullable=True),
        sa.Column("cost_nanousd", sa.BigInteger, nullable=True),
        sa.Column("title", sa.Text, nullable=False),
        # Last, because lists do not read it.
        sa.Column("detail", sa.Text, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
