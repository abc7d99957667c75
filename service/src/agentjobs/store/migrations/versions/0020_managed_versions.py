"""The published package, such as a Maven BOM, that sets the version of a dependency or finding."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The previous release inserts rows without it.
    for table in ("dependencies", "findings"):
        op.add_column(table, sa.Column("managed_by", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
