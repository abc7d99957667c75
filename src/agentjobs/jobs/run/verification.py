"""What the check after an agent found: the value, its words and its place in the store."""

from typing import Annotated

import msgspec

from agentjobs.json_fields import Count, doc
from agentjobs.store.database import Database, Transaction
from agentjobs.store.leases import ClaimLost


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    command: Annotated[str, doc("The command that was run after the agent.")]
    passed: Annotated[bool, doc("Whether it succeeded.")]
    exit_code: Annotated[int | None, doc("Null when a timeout or another limit stopped it.")]
    duration_ms: Annotated[Count, doc("How long it took.")]
    output: Annotated[str, doc("The last lines of a check that failed.")]
    stopped_by: Annotated[str | None, doc("The limit that stopped it, such as its timeout.")] = None


def stored_verification(text: str | None) -> Verification | None:
    return None if text is None else msgspec.json.decode(text, type=Verification)


def in_words(found: Verification) -> str:
    seconds = found.duration_ms / 1_000
    if found.passed:
        return f"`{found.command}` succeeded after {seconds:.1f} s"
    if found.exit_code is None:
        return f"`{found.command}` was stopped after {seconds:.1f} s: {found.stopped_by}"
    return f"`{found.command}` failed with exit code {found.exit_code} after {seconds:.1f} s"


async def record_verification(db: Database, job_id: str, fence: int, found: Verification) -> None:
    """Kept before anything is pushed: an attempt that adopts the branch must know it."""
    if not await db.transact(_record, job_id, fence, msgspec.json.encode(found).decode()):
        raise ClaimLost


async def _record(tx: Transaction, job_id: str, fence: int, text: str) -> bool:
    changed = await tx.execute(
        "UPDATE jobs SET verification = :text WHERE id = :job_id AND fence = :fence"
        " AND lease_owner IS NOT NULL",
        text=text,
        job_id=job_id,
        fence=fence,
    )
    return changed > 0
