"""The pull request that a follow-up continues, and the prompts of the jobs before it."""

import msgspec

from agentjobs.platforms.protocol import BasePlatform, RepoAddress
from agentjobs.store.database import Database
from agentjobs_runtime.agents.prompt import PreviousPull
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import JobFailed

# Up to the job that opened the pull request, and from there every follow-up.
_PREVIOUS_JOBS = """
WITH RECURSIVE up(id, follows) AS (
  SELECT id, follows FROM jobs WHERE id = :job_id
  UNION ALL
  SELECT j.id, j.follows FROM jobs j JOIN up ON j.id = up.follows
), of_the_pull(id) AS (
  SELECT id FROM up
  UNION
  SELECT j.id FROM jobs j JOIN of_the_pull p ON j.follows = p.id
)
SELECT j.config_override FROM jobs j JOIN of_the_pull p ON p.id = j.id
WHERE j.status = 'completed' AND j.id <> :job_id ORDER BY j.id DESC LIMIT 20
"""


async def load_previous_pull(
    db: Database, adapter: BasePlatform, address: RepoAddress, job: ClaimedJob
) -> PreviousPull | None:
    """None for a job that is not a follow-up."""
    if job.follows is None:
        return None
    pull = await adapter.pull_of_branch(address, job.branch)
    if pull is None or pull.state != "open":
        state = "no longer exists" if pull is None else f"is now {pull.state}"
        message = f"The pull request of {job.branch!r} {state}; create a new job."
        raise JobFailed("forge_error", message)
    rows = await db.fetch_all(_PREVIOUS_JOBS, job_id=job.id)
    overrides = [msgspec.json.decode(row["config_override"], type=dict) for row in rows]
    prompts = tuple(str(override["prompt"]) for override in overrides if override.get("prompt"))
    return PreviousPull(pull.number, pull.title, prompts)
