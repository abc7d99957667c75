"""The files that agents leave besides their changes, in the store."""

from collections.abc import AsyncIterator, Sequence

import msgspec

from agentjobs.jobs.lookup import ensure_job
from agentjobs.jobs.queue.claim import lock_claim
from agentjobs.store.database import Database, Transaction, to_struct
from agentjobs.store.in_transaction import in_large_transaction
from agentjobs_runtime.agents.artifacts import Artifact
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost

_PART_BYTES = 1024**2


class StoredArtifact(msgspec.Struct, frozen=True):
    name: str
    media_type: str
    size_bytes: int
    created_at: int


@in_large_transaction
async def store_artifacts(tx: Transaction, job: ClaimedJob, artifacts: Sequence[Artifact]) -> None:
    """Replaces those of an earlier attempt. Raises ClaimLost."""
    now = await tx.clock_ms()
    await tx.execute("DELETE FROM job_artifacts WHERE job_id = :job_id", job_id=job.id)
    for artifact in artifacts:
        await tx.execute(
            "INSERT INTO job_artifacts (job_id, name, media_type, size_bytes, content, created_at)"
            " VALUES (:job_id, :name, :media_type, :size_bytes, :content, :now)",
            job_id=job.id,
            name=artifact.name,
            media_type=artifact.media_type,
            size_bytes=len(artifact.content),
            content=artifact.content,
            now=now,
        )
    # Last: the renewal of the lease waits for this lock, and megabytes take time.
    if not await lock_claim(tx, job):
        raise ClaimLost


async def list_artifacts(db: Database, organization_id: str, job_id: str) -> list[StoredArtifact]:
    """Lists artifacts by name. Raises `job_not_found`."""
    await ensure_job(db, organization_id, job_id)
    rows = await db.fetch_all(
        "SELECT name, media_type, size_bytes, created_at FROM job_artifacts"
        " WHERE job_id = :job_id ORDER BY name",
        job_id=job_id,
    )
    return [to_struct(row, StoredArtifact) for row in rows]


async def find_artifact(
    db: Database, organization_id: str, job_id: str, name: str
) -> StoredArtifact:
    artifacts = await list_artifacts(db, organization_id, job_id)
    artifact = next((artifact for artifact in artifacts if artifact.name == name), None)
    if artifact is None:
        raise Problem(
            "artifact_not_found",
            "This job has no artifact with this name; GET /jobs/:id/artifacts lists them.",
        )
    return artifact


async def read_artifact(
    db: Database, job_id: str, artifact: StoredArtifact
) -> AsyncIterator[bytes]:
    """Reads in parts, so that a client that reads slowly does not hold all of it in memory."""
    for start in range(0, artifact.size_bytes, _PART_BYTES):
        rows = await db.fetch_all(
            "SELECT substr(content, :start, :length) AS part FROM job_artifacts"
            " WHERE job_id = :job_id AND name = :name AND created_at = :created_at",
            start=start + 1,
            length=_PART_BYTES,
            job_id=job_id,
            name=artifact.name,
            created_at=artifact.created_at,
        )
        if not rows:
            # Replaced or pruned meanwhile. The response ends too early, which its client notices.
            return
        yield bytes(rows[0]["part"])
