"""Dependencies and findings of fixtures: manifests that tests and examples use."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("dependencies", "findings"):
        # The previous release inserts rows without it.
        column = sa.Column("fixture", sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column(table, column)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
