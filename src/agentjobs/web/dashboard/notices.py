"""Notices shown on every page: webhook endpoints that were disabled automatically."""

from agentjobs.organizations.sessions import Viewer
from agentjobs.store.database import Database


async def notices_for(db: Database, viewer: Viewer) -> list[str]:
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
