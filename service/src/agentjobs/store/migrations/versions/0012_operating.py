"""What repositories require of workers, and organizations whose jobs are paused."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A JSON list of tags; only workers with all of them claim jobs of the repository.
    op.add_column("repos", sa.Column("required_tags", sa.Text, nullable=False, server_default="[]"))
    op.add_column("repos", sa.Column("max_concurrent_jobs", sa.Integer, nullable=True))
    op.add_column("organizations", sa.Column("paused_at", sa.BigInteger, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
