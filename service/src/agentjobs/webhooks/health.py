"""What waits to be sent again, for each endpoint of an organization. Read-only."""

import msgspec

from agentjobs.store.database import Database

# More are not counted.
MAX_COUNTED = 100

# The condition of a partial index, which begins with the organization and the endpoint and ends
# with the time.
_RETRIES = (
    "FROM deliveries d WHERE d.status = 'pending' AND d.lease_owner IS NULL AND d.attempts > 0"
    " AND d.organization_id = e.organization_id AND d.endpoint_id = e.id"
)
_WAITING = (
    f"SELECT e.id, (SELECT COUNT(*) FROM (SELECT 1 {_RETRIES} LIMIT {MAX_COUNTED}) few) AS waiting,"
    f" (SELECT d.due_at {_RETRIES} ORDER BY d.due_at LIMIT 1) AS next_at"
    " FROM webhook_endpoints e WHERE e.organization_id = :organization_id"
    " AND e.removed_at IS NULL AND e.disabled_at IS NULL"
)


class Retries(msgspec.Struct, frozen=True):
    """At most MAX_COUNTED are `waiting`; `next_at` is when the first of them is due."""

    waiting: int
    next_at: int

    @property
    def has_more(self) -> bool:
        """Whether more may be waiting than were counted."""
        return self.waiting == MAX_COUNTED


async def load_retries(db: Database, organization_id: str) -> dict[str, Retries]:
    """Counts by endpoint, without endpoints that have none."""
    rows = await db.fetch_all(_WAITING, organization_id=organization_id)
    return {row["id"]: Retries(row["waiting"], row["next_at"]) for row in rows if row["waiting"]}
