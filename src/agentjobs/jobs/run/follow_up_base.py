"""What a follow-up goes on with: the pull request as it is now, and what was asked before.

Reads; decides only that a pull request that is not open any more is not worth an agent's run.
"""

import msgspec

from agentjobs.agents.prompt import PullSoFar
from agentjobs.forges.protocol import Forge, RepoAddress
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.outcomes import Stopped
from agentjobs.store.database import Database

# Up to the job that opened the pull request, and from there all that went on with it.
_ASKED = """
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


async def pull_so_far(
    db: Database, forge: Forge, address: RepoAddress, job: ClaimedJob
) -> PullSoFar | None:
    """None for a job that follows none."""
    if job.follows is None:
        return None
    pull = await forge.pull_of_branch(address, job.branch)
    if pull is None or pull.state != "open":
        state = "gone" if pull is None else pull.state
        message = f"The pull request of {job.branch!r} is {state} by now; create a new job."
        raise Stopped("forge_error", message)
    rows = await db.fetch_all(_ASKED, job_id=job.id)
    overrides = [msgspec.json.decode(row["config_override"], type=dict) for row in rows]
    asked = tuple(str(override["prompt"]) for override in overrides if override.get("prompt"))
    return PullSoFar(pull.number, pull.title, asked)
