"""What every platform offers a job: an address to fetch and push, and a pull request.

Knows no job and no table; each platform is one file beside this one.
"""

from typing import Protocol

import msgspec

from agentjobs.git.remote import Remote


class ForgeError(Exception):
    """The platform refused or could not be reached; the message says what it answered."""


class RepoAddress(msgspec.Struct, frozen=True):
    """A connected repository, as its platform is told about it."""

    organization: str
    full_name: str
    repo_id: str


class PullRequestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A branch that was pushed already, and the words that ask for its review."""

    head_branch: str
    base_branch: str
    head_commit: str
    base_commit: str
    title: str
    body: str
    draft: bool = False
    reviewers: tuple[str, ...] = ()
    # The branch has its pull request already, which must still be open: none is opened for it. A
    # draft makes it one again.
    goes_on: bool = False


class PullRequest(msgspec.Struct, frozen=True):
    number: int
    url: str
    draft: bool


class BranchPull(msgspec.Struct, frozen=True):
    """A branch's pull request as it is now; `state` is open, merged or closed."""

    number: int
    title: str
    state: str


class Forge(Protocol):
    @property
    def platform(self) -> str: ...

    def remote(self, repo: RepoAddress, credential: str) -> Remote:
        """Where git reaches the repository, with the credential it shows there."""

    async def open_pull_request(
        self, repo: RepoAddress, credential: str, request: PullRequestRequest
    ) -> PullRequest:
        """Open it, or adopt the one that exists for the head branch: never a second one.

        Raises ForgeError.
        """

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        """The one whose head the branch is, whatever became of it. Raises ForgeError."""
