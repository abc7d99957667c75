"""Rows of pull requests that a platform elsewhere has: what the service knows of them.

Opened there, never here; `repos.platform_sync` keeps them fresh.
"""

from agentjobs.clock import now_ms
from agentjobs.forges.protocol import PullRequest, PullRequestRequest
from agentjobs.forges.text import title_of
from agentjobs.store.database import Transaction


async def record_pull(
    tx: Transaction, repo_id: str, request: PullRequestRequest, pull: PullRequest
) -> None:
    """The one that the branch has now, in the place of any that it had before."""
    await tx.execute(
        "DELETE FROM pulls WHERE repo_id = :repo_id AND head_branch = :head_branch"
        " AND number <> :number",
        repo_id=repo_id,
        head_branch=request.head_branch,
        number=pull.number,
    )
    await tx.execute(
        "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch, head_commit,"
        " base_commit, state, draft, created_at, url, line_comment_seen, review_seen)"
        " VALUES (:repo_id, :number, :title, '', :head_branch, :base_branch, :head_commit,"
        # Nothing was said on it yet; of a row from before there were these columns nobody knows.
        " :base_commit, 'open', :draft, :now, :url, 0, 0)"
        " ON CONFLICT (repo_id, number) DO UPDATE SET head_commit = excluded.head_commit,"
        " draft = excluded.draft, url = excluded.url",
        repo_id=repo_id,
        number=pull.number,
        title=title_of(request),
        head_branch=request.head_branch,
        base_branch=request.base_branch,
        head_commit=request.head_commit,
        base_commit=request.base_commit,
        draft=pull.draft,
        now=now_ms(),
        url=pull.url,
    )
