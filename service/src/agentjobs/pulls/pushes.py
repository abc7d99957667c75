"""Records the heads of branches of `local` repositories after a push.

Reads and writes nothing about branches that were not pushed.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from agentjobs.local_git.repositories import path
from agentjobs.repos.rows import record_pushed_head
from agentjobs.store.database import Database, StoreUnavailable, Transaction
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.refs import HEADS, read_heads

_RETRY_AFTER_SECONDS = (0.2, 1.0, 3.0)
_MAX_ROUNDS = 10
# More in one transaction would block other writers for too long.
_HEADS_AT_ONCE = 200

_log = logging.getLogger(__name__)


async def record_push(db: Database, root: Path, repo_id: str, refs: Collection[str]) -> None:
    """Record the heads of the branches in `refs`; the push itself has succeeded."""
    branches = [ref.removeprefix(HEADS) for ref in refs if ref.startswith(HEADS)]
    for pause in (*_RETRY_AFTER_SECONDS, None):
        try:
            await _record(db, path(root, repo_id), repo_id, branches)
        except GitError as error:
            # The push has succeeded, so this is not an error for the client.
            _log.warning("a push was not recorded: %s", error)
            return
        except StoreUnavailable:
            if pause is None:
                _log.exception("a push was not recorded", extra={"fields": {"repo_id": repo_id}})
                return
            await asyncio.sleep(pause)
        else:
            return


async def record_all_heads(db: Database, root: Path) -> None:
    """Record pushes that were missed because of a crash or an unavailable store."""
    rows = await db.fetch_all(
        "SELECT id FROM repos WHERE platform = 'local' AND disconnected_at IS NULL"
    )
    for row in rows:
        try:
            await _record(db, path(root, row["id"]), row["id"])
        except (GitError, OSError) as error:
            # One damaged repository must not block the others.
            _log.warning("a repository cannot be read: %s", error)


async def _record(
    db: Database, git_dir: Path, repo_id: str, branches: Collection[str] | None = None
) -> None:
    """Reads all branches with an open pull request, unless `branches` are given."""
    for _ in range(_MAX_ROUNDS):
        recorded = await _recorded_heads(db, repo_id, branches)
        heads = await read_heads(git_dir, recorded)
        changed = {name: head for name, head in heads.items() if head != recorded[name]}
        # Again afterwards: a concurrent push may have been recorded between reading and writing.
        if not changed:
            return
        names = sorted(changed)
        for start in range(0, len(names), _HEADS_AT_ONCE):
            batch = {name: changed[name] for name in names[start : start + _HEADS_AT_ONCE]}
            await db.transact(record_heads, repo_id, batch)


async def _recorded_heads(
    db: Database, repo_id: str, branches: Collection[str] | None
) -> dict[str, str]:
    """The default branch and those with an open pull request."""
    only = "" if branches is None else " AND {} IN (SELECT value FROM each(:branches))"
    named = {} if branches is None else {"branches": list(branches)}
    rows = await db.fetch_all(
        "SELECT default_branch AS name, head_commit FROM repos"
        f" WHERE id = :repo_id{only.format('default_branch')}"
        " UNION SELECT head_branch, head_commit FROM pulls"
        f" WHERE repo_id = :repo_id AND state = 'open'{only.format('head_branch')}",
        repo_id=repo_id,
        **named,
    )
    return {row["name"]: row["head_commit"] for row in rows}


async def record_heads(tx: Transaction, repo_id: str, heads: Mapping[str, str]) -> None:
    """Branches that are not in `heads` stay as recorded."""
    await _record_default_branch(tx, repo_id, heads)
    for branch, head in heads.items():
        await tx.execute(
            "UPDATE pulls SET head_commit = :head WHERE repo_id = :repo_id"
            " AND head_branch = :branch AND state = 'open' AND head_commit <> :head",
            repo_id=repo_id,
            branch=branch,
            head=head,
        )


async def _record_default_branch(tx: Transaction, repo_id: str, heads: Mapping[str, str]) -> None:
    repo = await tx.fetch_one(
        "SELECT default_branch, head_commit FROM repos WHERE id = :repo_id", repo_id=repo_id
    )
    head = None if repo is None else heads.get(repo["default_branch"])
    if repo is None or head is None or head == repo["head_commit"]:
        return
    await record_pushed_head(tx, repo_id, head)
