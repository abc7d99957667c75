"""What every platform offers: an address to fetch and push, pull requests, and what became of them.

Knows no job and no table. `local` is a Forge; a host elsewhere, seen through one connection of an
organization, is a Platform.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import msgspec

from agentjobs.git.remote import Remote

# refused: asked for something that cannot be; denied: a permission is missing; unauthorized: the
# credential itself is not accepted; gone: it is not there (any more); away: may pass by itself.
ForgeFault = Literal["refused", "denied", "unauthorized", "gone", "away"]
PullState = Literal["open", "merged", "closed"]
# On the pull request as a whole, on a line of its changes, or what a review says beside its lines.
CommentKind = Literal["comment", "line", "review"]


class ForgeError(Exception):
    """The platform refused or could not be reached; the message says what it answered."""

    def __init__(self, message: str, fault: ForgeFault = "refused") -> None:
        super().__init__(message)
        self.fault = fault

    @property
    def may_pass(self) -> bool:
        return self.fault == "away"


class RepoAddress(msgspec.Struct, frozen=True):
    """A connected repository, as its platform is told about it.

    `external_id` is what the platform itself calls it, whatever its name becomes.
    """

    organization: str
    full_name: str
    repo_id: str
    external_id: str = ""


class PullRequestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A branch that was pushed already, and the words that ask for its review."""

    head_branch: str
    base_branch: str
    head_commit: str
    base_commit: str
    title: str
    body: str
    draft: bool = False
    # As they stand in a configuration or in CODEOWNERS: `name`, `@name` or `@owner/team`.
    reviewers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    # The branch has its pull request already, which must still be open: none is opened for it. A
    # draft makes it one again.
    goes_on: bool = False


class PullRequest(msgspec.Struct, frozen=True):
    """`notes` say what of the request could not be had, such as a reviewer nobody knows."""

    number: int
    url: str
    draft: bool
    notes: tuple[str, ...] = ()


class BranchPull(msgspec.Struct, frozen=True):
    """A branch's pull request as it is now."""

    number: int
    title: str
    state: str


class RemotePull(msgspec.Struct, frozen=True):
    """What a platform says of a pull request."""

    number: int
    title: str
    state: PullState
    draft: bool
    head_commit: str
    url: str


class Comment(msgspec.Struct, frozen=True):
    """`id` grows with time among those of its kind; `author` is a login; `place` is what a comment
    on a line is about, such as `src/a.py, line 12`."""

    id: int
    author: str
    text: str
    url: str
    kind: CommentKind = "comment"
    place: str = ""


class CommentCursor(msgspec.Struct, frozen=True):
    """The highest number of each kind that was heard; None: nobody ever listened, and only the
    newest is told, as where to begin."""

    comments: int = 0
    lines: int | None = 0
    reviews: int | None = 0


class Issue(msgspec.Struct, frozen=True):
    full_name: str
    number: int
    title: str
    text: str
    labels: tuple[str, ...]
    url: str


class RemoteRepository(msgspec.Struct, frozen=True):
    """`default_branch` is empty for a repository without commits."""

    external_id: str
    full_name: str
    default_branch: str
    is_archived: bool = False
    may_push: bool = True


class Account(msgspec.Struct, frozen=True):
    """Who a connection is to its platform.

    `is_own` tells an account that only this service uses from a person's. `missing` are the
    permissions it lacks, in the platform's own words.
    """

    login: str
    is_own: bool
    missing: tuple[str, ...] = ()


class Forge(Protocol):
    @property
    def platform(self) -> str: ...

    def open_remote(
        self, repo: RepoAddress, credential: str
    ) -> AbstractAsyncContextManager[Remote]:
        """Where git reaches the repository, with a right that holds for one operation.

        Raises ForgeError.
        """

    async def open_pull_request(
        self, repo: RepoAddress, credential: str, request: PullRequestRequest
    ) -> PullRequest:
        """Open it, or adopt the one that exists for the head branch: never a second one.

        Raises ForgeError.
        """

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        """The one whose head the branch is, whatever became of it. Raises ForgeError."""


class Platform(Forge, Protocol):
    """Every method raises ForgeError. `credential` of a Forge's methods is nothing to it."""

    async def check(self) -> Account:
        """Whether the credential is accepted, and what it lacks."""

    def repositories(self) -> AsyncIterator[RemoteRepository]:
        """All that the connection can see."""

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        """As it is now, by its identifier where it has one, so that a rename is followed."""

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull: ...

    async def comments(self, repo: RepoAddress, number: int, heard: CommentCursor) -> list[Comment]:
        """Those on a pull request that were not heard yet; of each kind the oldest first."""

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        """On a pull request."""

    async def may_write(self, repo: RepoAddress, login: str) -> bool: ...

    async def issue(self, full_name: str, number: int) -> Issue: ...

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None: ...
