"""What an organization should know on whatever page it looks at: endpoints that went out of use."""

from agentjobs.store.database import Database
from agentjobs.webhooks.endpoints import list_endpoints, reason_text

# Who disabled one by hand knows.
_BY_ITSELF = frozenset({"gone", "failing"})


async def notices_for(db: Database, organization: str) -> list[str]:
    return [
        f"No events are sent to {endpoint.url}: {reason_text(endpoint)}"
        for endpoint in await list_endpoints(db, organization)
        if endpoint.disabled_reason in _BY_ITSELF
    ]
