"""Platforms: connections, hook events, pull requests; trackers and tickets."""

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
        # The URL of the platform, without a trailing slash.
        _text("url"),
        _text("app_id", null=True),
        _text("installation_id", null=True),
        # The account on the platform; NULL until it was verified.
        _text("account", null=True),
        # The private key or token, and the webhook secret; empty after removal.
        _bytes("sealed"),
        _text("key_id"),
        _bytes("hook_sealed"),
        _text("hook_key_id"),
        _text("error", null=True),
        _number("checked_at", null=True),
        _number("hook_seen_at", null=True),
        # Consecutive failures, and until when its repositories are not polled.
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
    # Hook events of platforms: each delivery once, deleted a day after it was processed.
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
    # The platform's own identifier, which survives renames.
    op.add_column("repos", _text("external_id", null=True))
    # When the next sync is due; NULL for `local`.
    op.add_column("repos", _number("sync_due_at", null=True))
    op.add_column("repos", _number("sync_failures", default=0))
    op.add_column("repos", _text("sync_error", null=True))
    op.add_column("repos", _number("synced_at", null=True))
    # When the next full sync is due; until then only hook events are processed.
    op.add_column("repos", _number("whole_due_at", null=True))
    # A hook reported a push or a rename that was not synced yet.
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
    # Its URL on the platform; NULL for `local`.
    op.add_column("pulls", _text("url", null=True))
    # The number of the last processed comment.
    op.add_column("pulls", _number("comment_seen", default=0))
    # When it was last synced, and when a hook reported a change since.
    op.add_column("pulls", _number("asked_at", null=True))
    op.add_column("pulls", _number("told_at", null=True))
    # How often in a row the platform returned not found.
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
        # The account of a Jira Cloud token; NULL if the token identifies it.
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
