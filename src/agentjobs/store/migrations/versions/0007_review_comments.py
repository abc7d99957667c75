"""Comments on lines of a pull request and the words of reviews: up to where they were heard."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The number of the last one of each kind that was looked at, as `comment_seen`. NULL: nobody
    # ever looked, as for all pull requests that are there by now; the first look then only notes
    # where it stands, so that what was said months ago starts nothing. New rows begin with 0.
    op.add_column("pulls", sa.Column("line_comment_seen", sa.BigInteger, nullable=True))
    op.add_column("pulls", sa.Column("review_seen", sa.BigInteger, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
