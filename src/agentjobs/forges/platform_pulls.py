"""Rows of pull requests that a platform elsewhere has: what the service knows of them.

Opened there, never here; `repos.platform_sync` keeps them fresh.
"""

from agentjobs.clock import now_ms
from agentjobs.forges.protocol import PullRequest, PullRequestRequest
from agentjobs.store.database import Transaction

_MOST_TITLE_LENGTH = 256


async def record_pull(
    tx: Transaction, repo_id: str, request: PullRequestRequest, pull: PullRequest
) -> None:
    """The one that the branch has now; comments made before it was known are nothing to us."""
    await tx.execute(
        "DELETE FROM pulls WHERE repo_id = :repo_id AND head_branch = :head_branch"
        " AND number <> :number",
        repo_id=repo_id,
        head_branch=request.head_branch,
        number=pull.number,
    )
    await tx.execute(
        "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch, head_commit,"
        " base_commit, state, draft, created_at, url)"
        " VALUES (:repo_id, :number, :title, '', :head_branch, :base_branch, :head_commit,"
        " :base_commit, 'open', :draft, :now, :url)"
        " ON CONFLICT (repo_id, number) DO UPDATE SET head_commit = excluded.head_commit,"
        " draft = excluded.draft, url = excluded.url",
        repo_id=repo_id,
        number=pull.number,
        title=_title(request.title) or request.head_branch,
        head_branch=request.head_branch,
        base_branch=request.base_branch,
        head_commit=request.head_commit,
        base_commit=request.base_commit,
        draft=pull.draft,
        now=now_ms(),
        url=pull.url,
    )


def _title(text: str) -> str:
    storable = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return " ".join(storable.split())[:_MOST_TITLE_LENGTH]
