"""Comments on lines of a pull request: their place, their replies, and the job they started."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # NULL for a comment on the whole pull request.
    op.add_column("pull_comments", sa.Column("path", sa.Text, nullable=True))
    op.add_column("pull_comments", sa.Column("line", sa.BigInteger, nullable=True))
    # 'left', of the base, or 'right'.
    op.add_column("pull_comments", sa.Column("side", sa.Text, nullable=True))
    # The head at that time, and the line with a few before it.
    op.add_column("pull_comments", sa.Column("commit_id", sa.Text, nullable=True))
    op.add_column("pull_comments", sa.Column("code", sa.Text, nullable=True))
    # The comment on a line that this one replies to.
    op.add_column("pull_comments", sa.Column("reply_to", sa.Text, nullable=True))
    # The follow-up that it started.
    op.add_column("pull_comments", sa.Column("job_id", sa.Text, nullable=True))
    op.add_column("pull_comments", sa.Column("resolved_at", sa.BigInteger, nullable=True))
    op.add_column("pull_comments", sa.Column("resolved_by", sa.Text, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
