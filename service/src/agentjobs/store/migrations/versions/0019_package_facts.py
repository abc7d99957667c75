"""Which dependencies and findings belong to fixtures, and to which packages imports lead."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The previous release inserts rows without these columns.
    for table in ("dependencies", "findings"):
        fixture = sa.Column("fixture", sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column(table, fixture)
        # "yes", "no" or "unknown".
        imported = sa.Column("imported", sa.Text, nullable=False, server_default="unknown")
        op.add_column(table, imported)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
