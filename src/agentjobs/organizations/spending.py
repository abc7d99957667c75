"""What an organization spent on models, day by day (UTC). Reads only; knows no limits."""

import msgspec

from agentjobs.store.database import Database


class DaySpent(msgspec.Struct, frozen=True):
    """`day` counts from the epoch, in UTC."""

    day: int
    nanousd: int


async def spent_by_day(
    db: Database, organization_id: str, *, last_day: int, days: int
) -> list[DaySpent]:
    """The last `days` days up to `last_day`, oldest first, those without spending too."""
    first_day = last_day - days + 1
    rows = await db.fetch_all(
        "SELECT day, spent_nanousd FROM daily_spending"
        " WHERE organization_id = :organization_id AND day >= :first_day AND day <= :last_day",
        organization_id=organization_id,
        first_day=first_day,
        last_day=last_day,
    )
    spent = {row["day"]: row["spent_nanousd"] for row in rows}
    return [DaySpent(day, spent.get(day, 0)) for day in range(first_day, last_day + 1)]
