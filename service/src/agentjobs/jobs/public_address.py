"""Stored links follow the public address when the service starts with another one, for instance
after a restore on another machine."""

import logging

from agentjobs.organizations.effective_settings import load_setting, store_public_url
from agentjobs.repos.hook_rows import make_all_due
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.settings import Settings

_BATCH = 500
# Platforms have their own addresses; the pages of `local` pull requests are ours.
_STORED = (
    "SELECT j.id FROM jobs j JOIN repos r ON r.id = j.repo_id WHERE r.platform = 'local'"
    " AND substr(j.pr_url, 1, CAST(:length AS INTEGER)) = :prefix AND j.id > :after"
    " ORDER BY j.id LIMIT :limit"
)

_log = logging.getLogger(__name__)


async def follow_public_address(db: Database, settings: Settings) -> None:
    previous = (await load_setting(db, "public_url", str) or "").rstrip("/")
    current = settings.effective_public_url
    if previous and previous != current:
        count = await _move_links(db, previous, current)
        await db.transact(make_all_due)
        _log.info("the public address was %s; changed %d links", previous, count)
    await store_public_url(db, settings)


async def _move_links(db: Database, previous: str, current: str) -> int:
    count, after, prefix = 0, "", f"{previous}/"
    while True:
        rows = await db.fetch_all(
            _STORED, length=len(prefix), prefix=prefix, after=after, limit=_BATCH
        )
        if not rows:
            return count
        ids = [row["id"] for row in rows]
        count += await db.transact(_move, ids, previous, current)
        after = ids[-1]


async def _move(tx: Transaction, ids: list[str], previous: str, current: str) -> int:
    return await tx.execute(
        "UPDATE jobs SET pr_url = CAST(:current AS TEXT)"
        " || substr(pr_url, CAST(:start AS INTEGER))"
        " WHERE id IN (SELECT value FROM each(:ids))",
        ids=ids,
        current=current,
        start=len(previous) + 1,
    )
