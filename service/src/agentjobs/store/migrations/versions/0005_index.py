"""The index: languages, dependencies, the graph; advisories, findings, and jobs they cause."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _id() -> sa.Column[str]:
    return sa.Column("id", sa.Text, primary_key=True)


def _key(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, primary_key=True)


def _text(name: str, *, null: bool = False, default: str | None = None) -> sa.Column[str]:
    text = None if default is None else sa.text(f"'{default}'")
    return sa.Column(name, sa.Text, nullable=null, server_default=text)


def _number(name: str, *, null: bool = False, default: int | None = None) -> sa.Column[int]:
    text = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.BigInteger, nullable=null, server_default=text)


def _repo(*, primary_key: bool = False) -> sa.Column[str]:
    return sa.Column(
        "repo_id", sa.Text, sa.ForeignKey("repos.id"), nullable=False, primary_key=primary_key
    )


def upgrade() -> None:
    _add_to_repos()
    _create_dependencies()
    _create_advisories()
    _create_findings()
    _add_to_jobs()


def _add_to_repos() -> None:
    # JSON: [[language, files, lines], …], most lines first.
    op.add_column("repos", _text("languages", default="[]"))
    # JSON: [{path, reason}, …]
    op.add_column("repos", _text("index_warnings", default="[]"))
    # The versions of the analyzers and their input, to skip unchanged work.
    op.add_column("repos", _text("index_fingerprint", null=True))
    op.add_column("repos", _text("dependencies_digest", null=True))
    # From .agentjobs.toml of the indexed commit; set in the service.
    op.add_column("repos", _text("configured_trigger", null=True))
    op.add_column("repos", _text("auto_trigger", null=True))
    op.add_column("organizations", _text("auto_trigger", null=True))
    # When the next scan is due; NULL if nothing changed.
    op.add_column("repos", _number("scan_due_at", null=True))
    op.add_column("repos", _number("scanned_at", null=True))
    op.add_column("repos", _text("scan_error", null=True))
    op.create_index(
        "repos_scan_due",
        "repos",
        ["scan_due_at"],
        sqlite_where=sa.text("scan_due_at IS NOT NULL"),
        postgresql_where=sa.text("scan_due_at IS NOT NULL"),
    )
    op.create_table(
        "repo_graphs",
        _repo(primary_key=True),
        _text("commit_id"),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def _create_dependencies() -> None:
    """One row per package version of a manifest."""
    op.create_table(
        "dependencies",
        _repo(primary_key=True),
        # The order of the listing: manifest, direct ones first, name.
        sa.Column("position", sa.BigInteger, primary_key=True),
        _text("ecosystem"),
        _text("name"),
        _text("version", null=True),
        _text("requirement"),
        sa.Column("direct", sa.Boolean, nullable=False),
        _text("scope"),
        _text("manifest"),
        # JSON: the names from a direct dependency to the parent.
        _text("parents"),
        _text("purl"),
    )
    op.create_index("dependencies_by_name", "dependencies", ["ecosystem", "name"])


def _create_advisories() -> None:
    op.create_table(
        "advisories",
        _id(),
        _text("modified"),
        # The part of the record that matching needs, as JSON.
        _text("data"),
        # The last synchronization that included it.
        _number("generation", default=0),
        # The ecosystem whose feed brought it.
        _text("feed"),
    )
    op.create_index("advisories_of_feed", "advisories", ["feed", "generation"])
    op.create_table("advisory_packages", _key("ecosystem"), _key("name"), _key("advisory_id"))
    op.create_index("packages_of_advisory", "advisory_packages", ["advisory_id"])
    # Identifier and aliases: advisories that share one describe the same vulnerability.
    op.create_table("advisory_names", _key("name"), _key("advisory_id"))
    op.create_index("names_of_advisory", "advisory_names", ["advisory_id"])
    op.create_table(
        "advisory_feeds",
        _key("ecosystem"),
        _text("source"),
        # The newest stored `modified`; the ETag of the archive.
        _text("newest", null=True),
        _text("etag", null=True),
        _number("records", default=0),
        _number("generation", default=0),
        _number("synced_at", null=True),
        _number("checked_at", null=True),
        _number("due_at", default=0),
        _text("error", null=True),
        _number("failures", default=0),
        # JSON: [{path, reason}, …]
        _text("warnings", default="[]"),
    )


def _create_findings() -> None:
    """A package of a repository and a group of advisories for the same vulnerability."""
    op.create_table(
        "findings",
        _id(),
        sa.Column("organization_id", sa.Text, nullable=False),
        _repo(),
        _text("manifest"),
        _text("ecosystem"),
        _text("name"),
        _text("version"),
        sa.Column("direct", sa.Boolean, nullable=False),
        # The main advisory of the group, and all of them with their aliases, as JSON.
        _text("advisory_id"),
        _text("advisory_ids"),
        # low, medium, high, critical or unknown; the source of the severity.
        _text("severity"),
        sa.Column("score", sa.Float, nullable=True),
        _text("severity_source"),
        _text("summary"),
        # The version that fixes all findings of this package, or why there is none.
        _text("fix_version", null=True),
        _text("fix_reason"),
        _number("first_seen_at"),
        sa.UniqueConstraint("repo_id", "manifest", "ecosystem", "name", "version", "advisory_id"),
    )
    op.create_index("findings_of_organization", "findings", ["organization_id", "id"])
    # Fixes that were proposed, regardless of their outcome.
    op.create_table(
        "auto_triggers",
        _repo(primary_key=True),
        _key("manifest"),
        _key("ecosystem"),
        _key("name"),
        _key("fix_version"),
        sa.Column("job_id", sa.Text, nullable=False),
        _number("created_at"),
    )


def _add_to_jobs() -> None:
    # JSON: why the service created the job.
    op.add_column("jobs", _text("cause", null=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead: agentjobs never downgrades a store")
