"""Platforms: connections, what they tell us, their pull requests; trackers and tickets."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def _id() -> sa.Column[str]:
    return sa.Column("id", sa.Text, primary_key=True)


def _text(name: str, *, null: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null)


def _number(name: str, *, null: bool = False, default: int | None = None) -> sa.Column[int]:
    text = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.BigInteger, nullable=null, server_default=text)


def _bytes(name: str, *, null: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=null)


def _organization() -> sa.Column[str]:
    return sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False)


def _partial_index(
    name: str, table: str, columns: list[str], where: str, *, unique: bool = False
) -> None:
    op.create_index(
        name,
        table,
        columns,
        unique=unique,
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
    )


def upgrade() -> None:
    _create_connections()
    _add_to_repos()
    _add_to_pulls()
    _create_trackers()


def _create_connections() -> None:
    op.create_table(
        "forge_connections",
        _id(),
        _organization(),
        _text("platform"),
        # "app" or "token".
        _text("kind"),
        _text("name"),
        # Where people reach the platform, without a slash at its end.
        _text("url"),
        _text("app_id", null=True),
        _text("installation_id", null=True),
        # Who the platform says we are; NULL until it was asked.
        _text("account", null=True),
        # The private key or the token, and the secret of its webhooks; empty once removed.
        _bytes("sealed"),
        _text("key_id"),
        _bytes("hook_sealed"),
        _text("hook_key_id"),
        _text("error", null=True),
        _number("checked_at", null=True),
        _number("hook_seen_at", null=True),
        # How often in a row it did not answer, and until when none of its repositories is read.
        _number("away_failures", default=0),
        _number("resting_until", null=True),
        _number("created_at"),
        _number("updated_at"),
        _number("removed_at", null=True),
    )
    in_use = "removed_at IS NULL"
    _partial_index(
        "forge_connections_names",
        "forge_connections",
        ["organization_id", "name"],
        in_use,
        unique=True,
    )
    # What platforms told: each delivery once, kept for a day after it was worked off.
    op.create_table(
        "forge_hints",
        _id(),
        sa.Column("connection_id", sa.Text, sa.ForeignKey("forge_connections.id"), nullable=False),
        _text("delivery_id"),
        # push, pull, comment, repository
        _text("kind"),
        _text("external_id", null=True),
        _number("number", null=True),
        _number("received_at"),
        _number("due_at", null=True),
        _number("tries", default=0),
        _text("error", null=True),
    )
    op.create_index(
        "forge_hints_deliveries", "forge_hints", ["connection_id", "delivery_id"], unique=True
    )
    _partial_index("forge_hints_due", "forge_hints", ["due_at"], "due_at IS NOT NULL")
    op.create_index("forge_hints_age", "forge_hints", ["received_at"])
    op.create_index("forge_hints_of_connection", "forge_hints", ["connection_id", "received_at"])


def _add_to_repos() -> None:
    op.add_column("repos", _text("connection_id", null=True))
    # What the platform itself calls it, whatever its name becomes.
    op.add_column("repos", _text("external_id", null=True))
    # When the platform is to be asked what is new; NULL: never, as for `local`.
    op.add_column("repos", _number("sync_due_at", null=True))
    op.add_column("repos", _number("sync_failures", default=0))
    op.add_column("repos", _text("sync_error", null=True))
    op.add_column("repos", _number("synced_at", null=True))
    # When all of it is to be read; before that only what the platform told of.
    op.add_column("repos", _number("whole_due_at", null=True))
    # The platform told of a push or a new name, and that was not read yet.
    op.add_column("repos", _number("told_at", null=True))
    op.add_column("repos", _number("hook_seen_at", null=True))
    _partial_index("repos_sync_due", "repos", ["sync_due_at"], "sync_due_at IS NOT NULL")
    _partial_index(
        "repos_of_connection",
        "repos",
        ["connection_id", "external_id"],
        "connection_id IS NOT NULL AND disconnected_at IS NULL",
        unique=True,
    )


def _add_to_pulls() -> None:
    # Where its platform shows it; NULL for `local`, whose pages are ours.
    op.add_column("pulls", _text("url", null=True))
    # The number of the last comment that was looked at.
    op.add_column("pulls", _number("comment_seen", default=0))
    # When its platform was last asked about it, and told of it since.
    op.add_column("pulls", _number("asked_at", null=True))
    op.add_column("pulls", _number("told_at", null=True))
    # How often in a row its platform did not know it.
    op.add_column("pulls", _number("missing_looks", default=0))
    _partial_index("pulls_told", "pulls", ["repo_id"], "told_at IS NOT NULL")
    _partial_index("pulls_followed", "pulls", ["repo_id", "state"], "state <> 'merged'")


def _create_trackers() -> None:
    op.create_table(
        "trackers",
        _id(),
        _organization(),
        # "issues" (of the repository's own platform) or "jira".
        _text("kind"),
        _text("name"),
        _text("url", null=True),
        # The account of a Jira Cloud token; NULL where the token alone says who we are.
        _text("account", null=True),
        _bytes("sealed", null=True),
        _text("key_id", null=True),
        sa.Column("link_back", sa.Boolean, nullable=False, server_default=sa.false()),
        _text("error", null=True),
        _number("checked_at", null=True),
        _number("created_at"),
        _number("removed_at", null=True),
    )
    _partial_index(
        "trackers_names",
        "trackers",
        ["organization_id", "name"],
        "removed_at IS NULL",
        unique=True,
    )
    # JSON: {title, url, labels, tracker}, once the ticket was found.
    op.add_column("jobs", _text("ticket", null=True))
    op.add_column("jobs", _number("ticket_linked_at", null=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
