"""The platform `local`: repositories that this service hosts, with pull requests as rows."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from agentjobs.platforms.adoption import ExistingPull, find_adoptable
from agentjobs.platforms.protocol import (
    BranchPull,
    PlatformError,
    PullRequest,
    PullRequestRequest,
    RepoAddress,
)
from agentjobs.pulls.pulls import pull_path
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs_runtime.git.remote import Remote, basic_authorization
from agentjobs_runtime.safe_text import replace_unstorable

_MAX_TITLE_LENGTH = 256
_MAX_BODY_LENGTH = 256 * 1024
_OF_BRANCH = (
    "SELECT number, title, state, draft, head_commit FROM pulls"
    " WHERE repo_id = :repo_id AND head_branch = :head_branch"
)

# Arguments: the transaction, the repository's ID, the branch and the job's credential.
MayWriteBranch = Callable[[Transaction, str, str, str], Awaitable[bool]]


class LocalPlatform:
    """`git_url` is the base of git URLs for workers, `public_url` that of pages for people.

    `certificates` is a file with the CAs that git trusts; None means the system's.
    """

    platform = "local"

    def __init__(
        self,
        db: Database,
        git_url: str,
        public_url: str,
        may_write_branch: MayWriteBranch,
        certificates: Path | None = None,
    ) -> None:
        self._db = db
        self._certificates = certificates
        self._may_write_branch = may_write_branch
        self._git_url = git_url.rstrip("/")
        self._public_url = public_url.rstrip("/")

    @contextlib.asynccontextmanager
    async def open_remote(self, repo: RepoAddress, credential: str) -> AsyncIterator[Remote]:
        url = f"{self._git_url}/git/{repo.organization}/{repo.full_name}.git"
        yield Remote(
            url,
            basic_authorization("job", credential),
            certificates=self._certificates,
            is_of_operator=True,
        )

    async def open_pull_request(
        self, repo: RepoAddress, credential: str, request: PullRequestRequest
    ) -> PullRequest:
        number, draft = await self._db.transact(self._open, repo, credential, request)
        path = pull_path(repo.organization, repo.full_name, number)
        return PullRequest(number, f"{self._public_url}{path}", draft)

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        row = await self._db.fetch_one(_OF_BRANCH, repo_id=repo.repo_id, head_branch=branch)
        return None if row is None else to_struct(row, BranchPull)

    async def _open(
        self, tx: Transaction, repo: RepoAddress, credential: str, request: PullRequestRequest
    ) -> tuple[int, bool]:
        if not await self._may_write_branch(tx, repo.repo_id, request.head_branch, credential):
            raise PlatformError("The credential of this job is no longer valid.")
        return await _open(tx, repo, request)


async def lock_pull(tx: Transaction, repo_id: str, branch: str) -> BranchPull | None:
    """The branch's pull request, locked until the transaction ends."""
    row = await tx.fetch_one(
        f"{_OF_BRANCH} /*postgresql FOR NO KEY UPDATE */", repo_id=repo_id, head_branch=branch
    )
    return None if row is None else to_struct(row, BranchPull)


async def _open(
    tx: Transaction, repo: RepoAddress, request: PullRequestRequest
) -> tuple[int, bool]:
    # Locked, so that two workers with the same job cannot open two.
    row = await tx.fetch_one(
        "SELECT organization_id, full_name FROM repos"
        " WHERE id = :repo_id AND disconnected_at IS NULL"
        " /*postgresql FOR NO KEY UPDATE */",
        repo_id=repo.repo_id,
    )
    if row is None:
        raise PlatformError(f"The repository {repo.full_name!r} is no longer connected.")
    existing = await tx.fetch_one(_OF_BRANCH, repo_id=repo.repo_id, head_branch=request.head_branch)
    if existing is not None:
        return await _adopt(tx, repo, request, existing)
    find_adoptable(None, request)
    number = await _next_number(tx, repo.repo_id, row)
    await _insert(tx, repo, request, number)
    return number, request.draft


async def _adopt(
    tx: Transaction, repo: RepoAddress, request: PullRequestRequest, existing: Row
) -> tuple[int, bool]:
    number: int = existing["number"]
    # A merged one stays the branch's pull request, whatever was pushed since.
    find_adoptable(ExistingPull(number, existing["state"], existing["head_commit"]), request)
    becomes_draft = request.is_follow_up and request.draft
    await tx.execute(
        "UPDATE pulls SET head_commit = :head_commit, draft = (draft OR :becomes_draft)"
        " WHERE repo_id = :repo_id AND number = :number AND state = 'open'",
        head_commit=request.head_commit,
        becomes_draft=becomes_draft,
        repo_id=repo.repo_id,
        number=number,
    )
    return number, bool(existing["draft"]) or becomes_draft


async def _insert(
    tx: Transaction, repo: RepoAddress, request: PullRequestRequest, number: int
) -> None:
    await tx.execute(
        "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch, head_commit,"
        " base_commit, state, draft, created_at)"
        " VALUES (:repo_id, :number, :title, :body, :head_branch, :base_branch, :head_commit,"
        " :base_commit, 'open', :draft, :now)",
        repo_id=repo.repo_id,
        number=number,
        title=_title(request),
        body=replace_unstorable(request.body)[:_MAX_BODY_LENGTH],
        head_branch=request.head_branch,
        base_branch=request.base_branch,
        head_commit=request.head_commit,
        base_commit=request.base_commit,
        draft=request.draft,
        now=await tx.clock_ms(),
    )


async def _next_number(tx: Transaction, repo_id: str, repo: Row) -> int:
    """Pull requests of an earlier repository of this name keep their numbers."""
    row = await tx.fetch_one(
        "INSERT INTO pull_numbers (repo_id, last_number) VALUES (:repo_id, 1 + COALESCE("
        " (SELECT MAX(n.last_number) FROM pull_numbers n JOIN repos r ON r.id = n.repo_id"
        "  WHERE r.organization_id = :organization_id AND r.full_name = :full_name), 0))"
        " ON CONFLICT (repo_id) DO UPDATE SET last_number = pull_numbers.last_number + 1"
        " RETURNING last_number",
        repo_id=repo_id,
        **dict(repo),
    )
    assert row is not None
    number: int = row["last_number"]
    return number


def _title(request: PullRequestRequest) -> str:
    line = " ".join(replace_unstorable(request.title).split())
    return line[:_MAX_TITLE_LENGTH] or request.head_branch
