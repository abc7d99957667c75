"""Writes the steps of a job directly to the store, as a worker would have recorded them."""

from typing import Any

from agentjobs.store.database import Database
from tests.support.users import write

_BEGAN_AT = 1_760_000_000_000
_SECOND = 1_000


async def insert_steps(
    db: Database, job_id: str, *steps: dict[str, Any], after: int = 0, began_at: int = _BEGAN_AT
) -> None:
    """Each has a kind and a title, and begins five seconds after the one before."""
    for number, step in enumerate(steps, start=after + 1):
        columns = {
            "job_id": job_id,
            "sequence": number,
            "state": "succeeded",
            "detail": "",
            "started_at": began_at + 5 * _SECOND * (number - 1),
            "exit_code": None,
            "duration_ms": None,
            "cost_nanousd": None,
            **step,
        }
        values = ", ".join(f":{name}" for name in columns)
        await write(
            db, f"INSERT INTO job_steps ({', '.join(columns)}) VALUES ({values})", **columns
        )
