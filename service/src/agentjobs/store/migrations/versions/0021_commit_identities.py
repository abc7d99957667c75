"""Who the commits of a connection are by, and how they are signed."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The previous release inserts rows without them.
    columns: tuple[sa.Column[str] | sa.Column[bytes], ...] = (
        # The account's name and address; NULL until a check has found them.
        sa.Column("commit_name", sa.Text, nullable=True),
        sa.Column("commit_email", sa.Text, nullable=True),
        # none, ssh or platform.
        sa.Column("signing", sa.Text, nullable=False, server_default="none"),
        # The private key for `ssh`; empty if there is none.
        sa.Column("signing_sealed", sa.LargeBinary, nullable=True),
        sa.Column("signing_key_id", sa.Text, nullable=False, server_default=""),
        sa.Column("signing_public_key", sa.Text, nullable=True),
    )
    for column in columns:
        op.add_column("forge_connections", column)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
