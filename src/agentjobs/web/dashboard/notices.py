"""Notices shown on every page: pauses, endpoints that were disabled, and processes that differ."""

from agentjobs.fleet.processes import configuration_problems, running_configurations
from agentjobs.organizations.organizations import DEFAULT_ORGANIZATION
from agentjobs.organizations.pauses import find_pause
from agentjobs.organizations.sessions import Viewer
from agentjobs.store.database import Database

_MAX_PROCESS_NOTICES = 3


async def notices_for(db: Database, viewer: Viewer) -> list[str]:
    return [
        *await _pause(db, viewer),
        *await _disabled_endpoints(db, viewer),
        *await _different_processes(db, viewer),
    ]


async def _pause(db: Database, viewer: Viewer) -> list[str]:
    paused = await find_pause(db, viewer.organization_id)
    if paused is None:
        return []
    name = "the service" if paused == "service" else f"the organization {viewer.organization}"
    return [f"The operator has paused {name}: running jobs continue, but no new jobs start."]


async def _disabled_endpoints(db: Database, viewer: Viewer) -> list[str]:
    # Endpoints disabled by an admin need no notice.
    rows = await db.fetch_all(
        "SELECT url FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND removed_at IS NULL AND disabled_reason IN ('gone', 'failing') ORDER BY id LIMIT 3",
        organization_id=viewer.organization_id,
    )
    return [
        f"The webhook {row['url']} was disabled because its deliveries failed. See Settings > "
        "Webhooks."
        for row in rows
    ]


async def _different_processes(db: Database, viewer: Viewer) -> list[str]:
    """For admins of the operator's organization: tenants see nothing of the machines."""
    if viewer.organization != DEFAULT_ORGANIZATION or viewer.role != "admin":
        return []
    return configuration_problems(await running_configurations(db))[:_MAX_PROCESS_NOTICES]
