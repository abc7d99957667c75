"""Stores logs in chunks, numbered per job; only the holder of the claim can append."""

from agentjobs.jobs.model import LogChunk
from agentjobs.store.database import Database, Transaction
from agentjobs.store.in_transaction import in_transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.log_decoder import SERVICE_MARKER, service_line
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.errors import ClaimLost


async def read_chunks(db: Database, job_id: str, after: int, limit: int) -> list[LogChunk]:
    rows = await db.fetch_all(
        "SELECT sequence, created_at, text FROM job_logs"
        " WHERE job_id = :job_id AND sequence > :after ORDER BY sequence LIMIT :limit",
        job_id=job_id,
        after=after,
        limit=limit,
    )
    return [LogChunk(row["sequence"], row["created_at"], row["text"]) for row in rows]


async def read_last_chunks(
    db: Database, job_id: str, min_length: int, *, before: int = 2**62
) -> list[LogChunk]:
    """The end of a log, or of the part before the chunk `before`: at least `min_length`
    characters, if there are so many. The first chunk of a log has the number 1."""
    newest_first: list[LogChunk] = []
    length = 0
    while length < min_length:
        rows = await db.fetch_all(
            "SELECT sequence, created_at, text FROM job_logs"
            " WHERE job_id = :job_id AND sequence < :before ORDER BY sequence DESC LIMIT 64",
            job_id=job_id,
            before=before,
        )
        for row in rows:
            if length < min_length:
                newest_first.append(LogChunk(row["sequence"], row["created_at"], row["text"]))
            length += len(row["text"])
        if len(rows) < 64:
            break
        before = rows[-1]["sequence"]
    return newest_first[::-1]


async def count_lines(db: Database, job_id: str, *, before: int) -> int:
    """How many lines end in the chunks before this one."""
    row = await db.fetch_one(
        "SELECT COALESCE(SUM(LENGTH(text) - LENGTH(REPLACE(text, :newline, ''))), 0) AS lines"
        " FROM job_logs WHERE job_id = :job_id AND sequence < :before",
        newline="\n",
        job_id=job_id,
        before=before,
    )
    return int(row["lines"]) if row is not None else 0


@in_transaction
async def append_chunk(
    tx: Transaction,
    job: ClaimedJob,
    text: str,
    at_ms: int | None = None,
    *,
    may_be_stored: bool = False,
) -> None:
    """The chunk gets the next number, also after those of an earlier attempt.

    `at_ms` is when the beginning of the text was read; by default now. `may_be_stored`: nobody
    knows whether an earlier call committed it. Raises ClaimLost.
    """
    at_ms = now_ms() if at_ms is None else at_ms
    if may_be_stored:
        last = await tx.fetch_one(
            "SELECT created_at, text FROM job_logs WHERE job_id = :job_id"
            " ORDER BY sequence DESC LIMIT 1",
            job_id=job.id,
        )
        if last is not None and (last["created_at"], last["text"]) == (at_ms, text):
            return
    written = await tx.execute(
        "INSERT INTO job_logs (job_id, sequence, created_at, text)"
        " SELECT q.job_id, COALESCE((SELECT MAX(l.sequence) FROM job_logs l"
        "  WHERE l.job_id = q.job_id), 0) + 1, CAST(:at AS BIGINT), CAST(:text AS TEXT)"
        " FROM job_queue q WHERE q.job_id = :job_id AND q.fence = :fence"
        " AND q.lease_owner IS NOT NULL /*postgresql FOR SHARE OF q */",
        job_id=job.id,
        fence=job.fence,
        at=at_ms,
        text=text,
    )
    if not written:
        raise ClaimLost
    tx.announce(f"log:{job.id}")


async def append_note(tx: Transaction, job_id: str, line: str) -> None:
    """A line of the service itself, for a caller that has locked the job."""
    await tx.execute(
        "INSERT INTO job_logs (job_id, sequence, created_at, text) SELECT CAST(:job_id AS TEXT),"
        " COALESCE(MAX(sequence), 0) + 1, CAST(:now AS BIGINT), CAST(:text AS TEXT)"
        " FROM job_logs WHERE job_id = :job_id",
        job_id=job_id,
        now=now_ms(),
        text=f"{SERVICE_MARKER} {service_line(line)}\n",
    )
    tx.announce(f"log:{job_id}")
