"""What an organization should know on whatever page it looks at: endpoints that went out of use."""

from agentjobs.organizations.sessions import Viewer
from agentjobs.store.database import Database


async def notices_for(db: Database, viewer: Viewer) -> list[str]:
    # Who disabled one by hand knows.
    rows = await db.fetch_all(
        "SELECT url FROM webhook_endpoints WHERE organization_id = :organization_id"
        " AND removed_at IS NULL AND disabled_reason IN ('gone', 'failing') ORDER BY id LIMIT 3",
        organization_id=viewer.organization_id,
    )
    return [
        f"No events are sent to {row['url']} any more: its deliveries failed. See Settings, "
        "Webhooks."
        for row in rows
    ]
