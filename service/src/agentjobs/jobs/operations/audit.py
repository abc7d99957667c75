"""Audit log entries for what people do with jobs.

Requests with API keys get none: the job already names its key, and a second row would cost time.
"""

from typing import Any

from msgspec.structs import replace

from agentjobs.organizations import audit
from agentjobs.store.database import Transaction

_KINDS_OF_PEOPLE = ("user", "operator")


def entry_for_person(action: str, target: str = "", /, **details: Any) -> audit.Entry | None:
    """Make an entry before the transaction; None when an API key acts."""
    if audit.current_actor().kind not in _KINDS_OF_PEOPLE:
        return None
    return audit.entry(action, target, **details)


async def write_entry(
    tx: Transaction, organization_id: str, job_id: str, entry: audit.Entry | None
) -> None:
    if entry is not None:
        await audit.write(tx, organization_id, replace(entry, target=job_id))
