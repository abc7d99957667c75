"""The branch of a job: derived from its identifier, so that a job run again finds its own work."""

BRANCH_PREFIX = "agentjobs/"
_SHORT_LENGTH = 12


def branch_of(job_id: str, agent: str) -> str:
    return f"{BRANCH_PREFIX}{agent}/{job_id[-_SHORT_LENGTH:]}"
