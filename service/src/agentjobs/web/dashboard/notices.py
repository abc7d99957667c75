"""Notices shown on every page: pauses, endpoints that were disabled, and processes that differ."""

from urllib.parse import quote

import msgspec

from agentjobs.fleet.processes import configuration_problems, running_configurations
from agentjobs.organizations.memberships import allows
from agentjobs.organizations.pauses import find_pause
from agentjobs.organizations.sessions import Viewer
from agentjobs.store.database import Database

_MAX_PROCESS_NOTICES = 3


class Notice(msgspec.Struct, frozen=True):
    """`path` is the page that tells more, which `link` names."""

    text: str
    path: str = ""
    link: str = ""


async def notices_for(db: Database, viewer: Viewer) -> list[Notice]:
    """Notices for members and for operators."""
    notices = await _different_processes(db, viewer)
    if not allows(viewer.role, "member"):
        return notices
    return [*await _pause(db, viewer), *await _disabled_endpoints(db, viewer), *notices]


async def _pause(db: Database, viewer: Viewer) -> list[Notice]:
    paused = await find_pause(db, viewer.organization_id)
    if paused is None:
        return []
    name = "the service" if paused == "service" else f"the organization {viewer.organization}"
    text = f"The operator has paused {name}: running jobs continue, but no new jobs start."
    return [Notice(text, "/jobs?status=queued", "View waiting jobs")]


async def _disabled_endpoints(db: Database, viewer: Viewer) -> list[Notice]:
    # Endpoints disabled by an admin need no notice.
    rows = await db.fetch_all(
        "SELECT id, url FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND removed_at IS NULL AND disabled_reason IN ('gone', 'failing') ORDER BY id LIMIT 3",
        organization_id=viewer.organization_id,
    )
    return [
        Notice(
            f"The webhook {row['url']} was disabled because its deliveries failed.",
            f"/settings/webhooks/{quote(row['id'])}",
            "View webhook",
        )
        for row in rows
    ]


async def _different_processes(db: Database, viewer: Viewer) -> list[Notice]:
    """Notices for operators: tenants see nothing of the machines."""
    if not viewer.is_operator:
        return []
    problems = configuration_problems(await running_configurations(db))
    return [
        Notice(text[:1].upper() + text[1:], "/operator/service", "View processes")
        for text in problems[:_MAX_PROCESS_NOTICES]
    ]
