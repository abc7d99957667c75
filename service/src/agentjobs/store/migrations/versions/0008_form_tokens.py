"""Used form tokens, so that submitting a form twice has one effect."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "used_form_tokens",
        # The hash of the token and the path of the form.
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        sa.Column("used_at", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
