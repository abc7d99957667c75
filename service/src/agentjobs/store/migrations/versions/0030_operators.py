"""Operators of the service as a property of accounts, and links that reset a password."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "users", sa.Column("is_operator", sa.Boolean, nullable=False, server_default=sa.false())
    )
    # They were the operators until now.
    op.execute(
        "UPDATE users SET is_operator = true WHERE id IN (SELECT m.user_id FROM memberships m"
        " JOIN organizations o ON o.id = m.organization_id"
        " WHERE o.name = 'default' AND m.role = 'admin')"
    )
    # 'sign_in' or 'password_reset'. Processes that do not know the column refuse tokens of the
    # second kind by their prefix.
    op.add_column(
        "sign_in_links", sa.Column("purpose", sa.Text, nullable=False, server_default="sign_in")
    )
    # Of a reset link made by an admin: the only organization that the account may belong to.
    op.add_column("sign_in_links", sa.Column("organization_id", sa.Text, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
