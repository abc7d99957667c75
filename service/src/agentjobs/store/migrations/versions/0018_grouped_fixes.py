"""How a repository groups fixes, and fixes that an open pull request already proposes."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # From .agentjobs.toml of the indexed commit; NULL for the default.
    op.add_column("repos", sa.Column("configured_grouping", sa.Text, nullable=True))
    op.create_table(
        "proposed_fixes",
        sa.Column("repo_id", sa.Text, sa.ForeignKey("repos.id"), primary_key=True),
        *(
            sa.Column(name, sa.Text, primary_key=True)
            for name in ("manifest", "ecosystem", "name", "fix_version")
        ),
        sa.Column("pull_number", sa.BigInteger, nullable=False),
        sa.Column("pull_url", sa.Text, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
