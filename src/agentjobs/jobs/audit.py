"""What people do with jobs goes into the audit log; what keys do does not.

A job knows the key that asked for it, and a request must not pay for a second row that says so.
"""

from typing import Any

from msgspec.structs import replace

from agentjobs.organizations import audit
from agentjobs.store.database import Transaction

_IN_PERSON = ("user", "operator")


def entry_in_person(action: str, target: str = "", /, **details: Any) -> audit.Entry | None:
    """To be made before the transaction; None when nobody acts in person."""
    if audit.current_actor().kind not in _IN_PERSON:
        return None
    return audit.entry(action, target, **details)


async def write_about(
    tx: Transaction, organization_id: str, job_id: str, entry: audit.Entry | None
) -> None:
    if entry is not None:
        await audit.write(tx, organization_id, replace(entry, target=job_id))
