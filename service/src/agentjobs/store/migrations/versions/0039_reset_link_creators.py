"""Who created a password reset link: it stops working when they lose the right to create it."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # NULL: created with the command line, or by an earlier version.
    op.add_column("sign_in_links", sa.Column("created_by", sa.Text, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
