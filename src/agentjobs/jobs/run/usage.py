"""Keeps a job's `usage` up to date with what the gateway charged, in the gateway's transaction."""

from collections.abc import Awaitable, Callable

import msgspec

from agentjobs.gateway.ledger import Totals
from agentjobs.store.database import Transaction


def usage_writer(job_id: str) -> Callable[[Transaction, Totals], Awaitable[None]]:
    """Not fenced: what was spent was spent, whoever holds the job now."""

    async def write(tx: Transaction, totals: Totals) -> None:
        await tx.execute(
            "UPDATE jobs SET usage = :usage WHERE id = :job_id",
            usage=msgspec.json.encode(totals.as_usage()).decode(),
            job_id=job_id,
        )

    return write
