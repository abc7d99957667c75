"""Every column with encrypted values, for the rotation of the key."""

from collections.abc import Callable

from agentjobs.connections import connections
from agentjobs.environments.secrets import row_context
from agentjobs.organizations import secrets
from agentjobs.organizations.key_rotation import SealedColumn
from agentjobs.repos import hook_rows
from agentjobs.store.database import Row
from agentjobs.tickets import trackers
from agentjobs.webhooks import signing


def _context(
    seal_context: Callable[[str, str], tuple[str, ...]], id_column: str = "id"
) -> Callable[[Row], tuple[str, ...]]:
    return lambda row: seal_context(row["organization_id"], row[id_column])


SEALED_COLUMNS = (
    SealedColumn(
        kind="secrets",
        table="secrets",
        key=("organization_id", "name"),
        context=_context(secrets.seal_context, "name"),
        name="The secret {name} of {organization_id}",
    ),
    # The pending ones first: a pending secret may become the main one meanwhile.
    *(
        SealedColumn(
            kind="webhooks",
            table="webhook_endpoints",
            prefix=prefix,
            context=_context(signing.sealing_context),
            name="The secret of {id}",
        )
        for prefix in ("pending_", "")
    ),
    *(
        SealedColumn(
            kind="platforms",
            table="platform_connections",
            prefix=prefix,
            context=_context(context),
            name="The credential of {id}",
        )
        for prefix, context in (
            ("", connections.seal_context),
            ("hook_", connections.hook_seal_context),
            ("signing_", connections.signing_seal_context),
        )
    ),
    SealedColumn(
        kind="platform webhooks",
        table="repo_hooks",
        source="repo_hooks JOIN (SELECT id AS repo_id, organization_id FROM repos) r"
        " USING (repo_id)",
        key=("repo_id",),
        context=_context(hook_rows.seal_context, "repo_id"),
        name="The webhook secret of {repo_id}",
    ),
    SealedColumn(
        kind="trackers",
        table="trackers",
        context=_context(trackers.seal_context),
        name="The token of the tracker {id}",
    ),
    SealedColumn(
        kind="environments",
        table="environment_secrets",
        key=("organization_id", "repo_id", "name"),
        context=row_context,
        # A secret of a registry has no repository.
        source="(SELECT s.*, COALESCE(NULLIF(s.repo_id, ''), s.organization_id) AS place"
        " FROM environment_secrets s) AS placed",
        name="The secret {name} of {place}",
    ),
)
