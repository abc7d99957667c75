"""The networks that an API key may be used from."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # CIDR ranges separated by commas; NULL for any address.
    op.add_column("api_keys", sa.Column("allowed_networks", sa.Text, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
