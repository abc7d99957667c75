"""What a queued job waits for besides its platform, and warnings of jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The key of an outage in platform_outages: that of a tracker which did not respond.
    op.add_column("jobs", sa.Column("waits_for", sa.Text, nullable=True))
    # A JSON list of messages; NULL if there are none.
    op.add_column("jobs", sa.Column("warnings", sa.Text, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
