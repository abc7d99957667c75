"""Records the heads of branches of `local` repositories after a push."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from agentjobs.git.process import GitError
from agentjobs.git.refs import HEADS, list_branches
from agentjobs.local_git.repositories import path
from agentjobs.store.database import Database, StoreUnavailable, Transaction

_RETRY_AFTER_SECONDS = (0.2, 1.0, 3.0)
_MAX_ROUNDS = 10

_log = logging.getLogger(__name__)


async def record_push(db: Database, data_dir: Path, repo_id: str, refs: Collection[str]) -> None:
    """Record the heads of the branches in `refs`; the push itself has succeeded."""
    branches = {ref.removeprefix(HEADS) for ref in refs if ref.startswith(HEADS)}
    for pause in (*_RETRY_AFTER_SECONDS, None):
        try:
            await _record(db, path(data_dir, repo_id), repo_id, branches)
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


async def record_all_heads(db: Database, data_dir: Path) -> None:
    """Record pushes that were missed because of a crash or an unavailable store."""
    rows = await db.fetch_all(
        "SELECT id FROM repos WHERE platform = 'local' AND disconnected_at IS NULL"
    )
    for row in rows:
        git_dir = path(data_dir, row["id"])
        try:
            await _record(db, git_dir, row["id"], set(await list_branches(git_dir)))
        except (GitError, OSError) as error:
            # One damaged repository must not block the others.
            _log.warning("a repository cannot be read: %s", error)


async def _record(db: Database, git_dir: Path, repo_id: str, branches: set[str]) -> None:
    followed = branches & await _followed_branches(db, repo_id)
    heads = await _heads(git_dir, followed) if followed else {}
    for _ in range(_MAX_ROUNDS):
        if not heads:
            return
        await db.transact(record_heads, repo_id, heads)
        # A concurrent push may have been recorded between reading and writing.
        read, heads = heads, await _heads(git_dir, followed)
        if heads == read:
            return


async def _heads(git_dir: Path, branches: set[str]) -> dict[str, str]:
    return {name: head for name, head in (await list_branches(git_dir)).items() if name in branches}


async def _followed_branches(db: Database, repo_id: str) -> set[str]:
    rows = await db.fetch_all(
        "SELECT default_branch AS name FROM repos WHERE id = :repo_id"
        " UNION SELECT head_branch FROM pulls WHERE repo_id = :repo_id AND state = 'open'",
        repo_id=repo_id,
    )
    return {row["name"] for row in rows}


async def record_heads(tx: Transaction, repo_id: str, heads: Mapping[str, str]) -> None:
    """Branches that are not in `heads` stay as recorded."""
    await _record_default_branch(tx, repo_id, heads)
    pulls = await tx.fetch_all(
        "SELECT number, head_branch, head_commit FROM pulls"
        " WHERE repo_id = :repo_id AND state = 'open'",
        repo_id=repo_id,
    )
    for pull in pulls:
        head = heads.get(pull["head_branch"])
        if head is not None and head != pull["head_commit"]:
            await tx.execute(
                "UPDATE pulls SET head_commit = :head"
                " WHERE repo_id = :repo_id AND number = :number",
                repo_id=repo_id,
                number=pull["number"],
                head=head,
            )


async def _record_default_branch(tx: Transaction, repo_id: str, heads: Mapping[str, str]) -> None:
    repo = await tx.fetch_one(
        "SELECT default_branch, head_commit FROM repos WHERE id = :repo_id", repo_id=repo_id
    )
    head = None if repo is None else heads.get(repo["default_branch"])
    if repo is None or head is None or head == repo["head_commit"]:
        return
    await tx.execute(
        "UPDATE repos SET head_commit = :head, index_due_at = :now"
        " WHERE id = :repo_id AND disconnected_at IS NULL",
        repo_id=repo_id,
        head=head,
        now=await tx.clock_ms(),
    )
    await tx.invalidate("repos")
    tx.announce("index")
