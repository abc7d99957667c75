"""What every platform offers: a git remote, pull requests and their state.

Knows no job and no table. `local` is a BasePlatform; an external host, accessed through a
connection of an organization, is a Platform.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Meta

from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.remote import Remote

# refused: the request is invalid; denied: a permission is missing; unauthorized: the credential is
# not accepted; gone: not found or deleted; away: the platform is unavailable for now; unusable:
# what responds is not the platform's API as it should be (another address, version or certificate,
# a proxy).
PlatformFault = Literal["refused", "denied", "unauthorized", "gone", "away", "unusable"]
PullState = Literal["open", "merged", "closed"]
# Merges with a merge commit, as one commit, or commit by commit on top of the base branch.
MergeMethod = Literal["merge", "squash", "rebase"]
# On the pull request, on a line of its changes, or the summary of a review.
CommentKind = Literal["comment", "line", "review"]
# neutral: neither success nor failure; it does not keep a pull request from being merged.
StatusState = Literal["pending", "success", "failure", "neutral"]
# How branch rules name it.
STATUS_NAME = "agentjobs"


MAX_OPEN_PULLS = 50
# What a platform may return in such a field; `validate` refuses anything else.
Number = Annotated[int, Meta(gt=0, le=2**63 - 1)]
ExternalId = Annotated[str, Meta(pattern=r"^0*[1-9][0-9]*\Z", max_length=18)]
# Empty for a pull request without a branch.
CommitId = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})?\Z")]
Name = Annotated[str, Meta(pattern=r"^[^\x00-\x20\x7f]+\Z", max_length=1_000)]
NameOrEmpty = Annotated[str, Meta(pattern=r"^[^\x00-\x20\x7f]*\Z", max_length=1_000)]
# With any host: GitHub Enterprise may use another name for itself.
_VISIBLE = r"[^\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f]"
_URL = rf"^https?://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d*)?(?:[/?#]{_VISIBLE}*)?\Z"
WebUrl = Annotated[str, Meta(pattern=_URL, max_length=2_000)]


class PlatformError(Exception):
    """The platform refused a request or is unavailable; the message is for a person."""

    def __init__(self, message: str, fault: PlatformFault = "refused") -> None:
        super().__init__(message)
        self.fault = fault

    @property
    def is_temporary(self) -> bool:
        return self.fault == "away"

    @property
    def is_of_connection(self) -> bool:
        """Whether a person can make the same request succeed: by a permission or a credential, or
        by repairing the platform or its address."""
        return self.fault in {"denied", "unauthorized", "gone", "unusable"}


class RepoAddress(msgspec.Struct, frozen=True):
    """Identifies a connected repository to its platform.

    `external_id` is the platform's own ID, which survives a rename.
    """

    organization: str
    full_name: str
    repo_id: str
    external_id: str = ""


class PullRequestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request to open for a branch that has been pushed."""

    head_branch: str
    base_branch: str
    head_commit: str
    base_commit: str
    title: str
    body: str
    draft: bool = False
    # As written in a configuration or in CODEOWNERS: `name`, `@name` or `@owner/team`.
    reviewers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    # The branch already has a pull request, which must still be open; with `draft` it becomes a
    # draft again.
    is_follow_up: bool = False


class PullRequest(msgspec.Struct, frozen=True):
    """`notes` say which parts of the request failed, such as an unknown reviewer."""

    number: Number
    url: WebUrl
    draft: bool
    notes: tuple[str, ...] = ()


class BranchPull(msgspec.Struct, frozen=True):
    """The current pull request of a branch."""

    number: Number
    title: str
    state: str


class RemotePull(BranchPull, frozen=True):
    """A pull request as the platform returns it."""

    state: PullState
    draft: bool
    head_commit: CommitId
    url: WebUrl


class Comment(msgspec.Struct, frozen=True):
    """`id` increases with time within its kind; `author` is a login.

    `location` is where a comment on a line is, such as `src/a.py, line 12`.
    """

    id: Number
    author: NameOrEmpty
    text: str
    url: WebUrl
    kind: CommentKind = "comment"
    location: str = ""


class CommentCursor(msgspec.Struct, frozen=True):
    """The highest ID of each kind that was handled; None means that none was ever read, so that
    only the newest comment is returned, as a starting point."""

    comments: int = 0
    lines: int | None = 0
    reviews: int | None = 0


class Issue(msgspec.Struct, frozen=True):
    full_name: Name
    number: Number
    title: str
    text: str
    labels: tuple[str, ...]
    url: WebUrl


class RemoteRepository(msgspec.Struct, frozen=True):
    """A repository as the platform returns it; `default_branch` is empty if it has no commits.

    `pushed_at` is the time of the last push in milliseconds since the epoch; None if the platform
    does not tell.
    """

    external_id: ExternalId
    full_name: Name
    default_branch: NameOrEmpty
    is_archived: bool = False
    may_push: bool = True
    pushed_at: int | None = None


class RateLimit(msgspec.Struct, frozen=True):
    """How many requests a platform allows per period and how many are left; `resets_at` is in
    seconds since the epoch."""

    limit: int
    remaining: int
    resets_at: float


class Account(msgspec.Struct, frozen=True):
    """The account of a connection's credential.

    `is_own`: only this service uses the account. `missing` are the permissions that it lacks, as
    the platform names them; `missing_extras` those that only some features need.
    `rate_limit` is None if the platform does not tell, and so is `identity`, whom commits of the
    connection name.
    """

    login: Name
    is_own: bool
    missing: tuple[str, ...] = ()
    missing_extras: tuple[str, ...] = ()
    rate_limit: RateLimit | None = None
    identity: Identity | None = None


class NewCommit(msgspec.Struct, frozen=True):
    """A commit that the platform should make, with one parent."""

    tree: str
    parent: str
    message: str


class RemoteHook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook as the platform returns it; `target_url` is where it delivers to.

    `is_complete`: it is active and delivers every event that a sync reacts to, as JSON.
    `delivery` is what the platform says about its last delivery, or that it has paused deliveries;
    empty if it says nothing.
    """

    hook_id: str
    target_url: str
    is_complete: bool
    is_failing: bool = False
    delivery: str = ""


class PlatformHooks(Protocol):
    """Webhooks of repositories. Every method raises PlatformError; `denied` if the connection may
    not manage them, with a message that names the permission."""

    async def shared(self) -> RemoteHook | None:
        """The webhook for all repositories of the connection, which only a GitHub App has."""

    async def of_repository(self, repo: RepoAddress) -> list[RemoteHook]: ...

    async def create(self, repo: RepoAddress, url: str, secret: str) -> RemoteHook: ...

    async def delete(self, repo: RepoAddress, hook_id: str) -> None:
        """A webhook that no longer exists is no error."""


class CommitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a job, for the commit at the head of its pull request."""

    commit: str
    branch: str
    state: StatusState
    description: str
    url: str


class BasePlatform(Protocol):
    @property
    def platform(self) -> str: ...

    def open_remote(
        self, repo: RepoAddress, credential: str
    ) -> AbstractAsyncContextManager[Remote]:
        """The git remote of the repository, with a credential for one operation.

        Raises PlatformError.
        """

    async def open_pull_request(
        self, repo: RepoAddress, credential: str, request: PullRequestRequest
    ) -> PullRequest:
        """Open a pull request, or adopt the one of the head branch; never open a second one.

        Raises PlatformError.
        """

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        """The branch's pull request, whatever its state. Raises PlatformError."""


class Platform(BasePlatform, Protocol):
    """Every method raises PlatformError. `credential` parameters are ignored."""

    @property
    def hooks(self) -> PlatformHooks: ...

    async def check(self) -> Account:
        """Check the credential and its permissions."""

    def repositories(self) -> AsyncIterator[RemoteRepository]:
        """All repositories that the connection can see."""

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        """The current state; looked up by ID if there is one, so that renames are followed."""

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull: ...

    @property
    def merge_methods(self) -> tuple[MergeMethod, ...]:
        """Merge methods that a request to merge can choose."""

    async def merge_pull(
        self, repo: RepoAddress, number: int, *, method: MergeMethod, head_commit: str
    ) -> None:
        """Merge a pull request if this is still its head.

        The error may be wrong about what happened: read the pull request then.
        """

    async def close_pull(self, repo: RepoAddress, number: int) -> None:
        """Close a pull request without merging it."""

    async def open_pulls(self, repo: RepoAddress, base_branch: str) -> list[RemotePull]:
        """The newest open ones to a branch, whoever opened them; at most MAX_OPEN_PULLS."""

    async def comments(
        self, repo: RepoAddress, number: int, cursor: CommentCursor
    ) -> list[Comment]:
        """Comments on a pull request after the cursor; within each kind the oldest first."""

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        """Comment on a pull request."""

    async def may_write(self, repo: RepoAddress, login: str) -> bool: ...

    async def find_identity(self, login: str) -> Identity | None:
        """How commits name an account; None if the platform does not know the login."""

    async def register_signing_key(self, title: str, public_key: str) -> None:
        """Let the platform verify signatures of an SSH key as those of the connection's account."""

    async def set_status(self, repo: RepoAddress, status: CommitStatus) -> None:
        """Write it under STATUS_NAME, in place of an earlier one of the same commit."""

    async def issue(self, full_name: str, number: int) -> Issue: ...

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None: ...


@runtime_checkable
class SigningPlatform(Protocol):
    """A platform that signs commits which it makes itself."""

    async def create_signed_commit(self, repo: RepoAddress, ref: str, commit: NewCommit) -> None:
        """Point `ref`, which has the commit's tree, at the signed commit.

        Raises PlatformError, also if the platform did not sign.
        """
