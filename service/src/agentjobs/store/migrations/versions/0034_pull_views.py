"""Which files of a pull request a user has viewed."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pull_views",
        sa.Column("repo_id", sa.Text, sa.ForeignKey("repos.id"), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        # A digest of the path, which may be longer than an index allows.
        sa.Column("file_key", sa.Text, primary_key=True),
        # The content that was viewed.
        sa.Column("blob_id", sa.Text, nullable=False),
        sa.Column("viewed_at", sa.BigInteger, nullable=False),
    )
    op.create_index("pull_views_by_time", "pull_views", ["viewed_at"])


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
