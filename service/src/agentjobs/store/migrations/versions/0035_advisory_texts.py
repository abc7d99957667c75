"""Descriptions, links and weaknesses of advisories, apart from what matching reads."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "advisory_texts",
        sa.Column("advisory_id", sa.Text, primary_key=True),
        # JSON: {details, references: [[kind, url], …], weaknesses}
        sa.Column("data", sa.Text, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
