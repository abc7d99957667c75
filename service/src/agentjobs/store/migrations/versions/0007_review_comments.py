"""Cursors of line comments and reviews of pull requests."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The number of the last processed comment of each kind, like `comment_seen`. NULL for pull
    # requests that exist already: their first sync only stores the latest number, so that old
    # comments start no jobs. New rows start with 0.
    op.add_column("pulls", sa.Column("line_comment_seen", sa.BigInteger, nullable=True))
    op.add_column("pulls", sa.Column("review_seen", sa.BigInteger, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
