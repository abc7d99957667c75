"""What of GitHub's answers is read, and what it means here. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import msgspec

from agentjobs.forges.http.pagination import MOST_ON_A_PAGE
from agentjobs.forges.protocol import (
    BranchPull,
    Comment,
    Issue,
    PullState,
    RemotePull,
    RemoteRepository,
)
from agentjobs.forges.text import place_of

# What GitHub itself shows as the author of what somebody wrote who is gone.
NOBODY = "ghost"
# Of a number, what tells apart those that were sent in one second.
_WITHIN_A_SECOND = 2**20


class User(msgspec.Struct, frozen=True):
    login: str


class Permissions(msgspec.Struct, frozen=True):
    push: bool = False


class Repository(msgspec.Struct, frozen=True):
    id: int
    full_name: str
    default_branch: str | None = None
    archived: bool = False
    disabled: bool = False
    permissions: Permissions | None = None
    size: int | None = None
    pushed_at: str | None = None

    @property
    def is_perhaps_empty(self) -> bool:
        """Small ones count as 0 too, and one without commits has a default branch all the same."""
        return self.size == 0

    def seen(self, *, may_push: bool | None = None) -> RemoteRepository:
        """`may_push`: what is known better than by the answer."""
        is_empty = self.is_perhaps_empty and self.pushed_at is None
        told = self.permissions is None or self.permissions.push
        return RemoteRepository(
            external_id=str(self.id),
            full_name=self.full_name,
            default_branch="" if is_empty else self.default_branch or "",
            is_archived=self.archived or self.disabled,
            may_push=told if may_push is None else may_push,
        )


class RepositoryPage(msgspec.Struct, frozen=True):
    repositories: Annotated[list[Repository], msgspec.Meta(max_length=MOST_ON_A_PAGE)]


class Branch(msgspec.Struct, frozen=True):
    name: str


class Head(msgspec.Struct, frozen=True):
    ref: str
    sha: str


class Pull(msgspec.Struct, frozen=True):
    number: int
    title: str
    state: str
    html_url: str
    head: Head
    draft: bool = False
    merged_at: str | None = None
    user: User | None = None

    @property
    def pull_state(self) -> PullState:
        if self.merged_at is not None:
            return "merged"
        return "open" if self.state == "open" else "closed"

    @property
    def now(self) -> RemotePull:
        return RemotePull(
            number=self.number,
            title=self.title,
            state=self.pull_state,
            draft=self.draft,
            head_commit=self.head.sha,
            url=self.html_url,
        )

    @property
    def of_branch(self) -> BranchPull:
        return BranchPull(self.number, self.title, self.pull_state)


class IssueComment(msgspec.Struct, frozen=True):
    id: int
    html_url: str
    body: str | None = None
    user: User | None = None

    @property
    def comment(self) -> Comment:
        author = NOBODY if self.user is None else self.user.login
        return Comment(self.id, author, self.body or "", self.html_url)


class Review(msgspec.Struct, frozen=True):
    """`submitted_at` is missing as long as it is only written, not sent."""

    id: int
    state: str
    html_url: str
    body: str | None = None
    user: User | None = None
    submitted_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    @property
    def is_sent(self) -> bool:
        return self.state != "PENDING" and self.submitted_at is not None

    @property
    def text(self) -> str:
        return (self.body or "").strip()

    @property
    def number(self) -> int:
        return self.number_of(self.id)

    def number_of(self, identifier: int) -> int:
        """By when it was sent: GitHub's own identifiers are given when somebody begins to write,
        and what is begun first may be sent last."""
        sent = 0 if self.submitted_at is None else int(self.submitted_at.timestamp())
        return sent * _WITHIN_A_SECOND + identifier % _WITHIN_A_SECOND

    @property
    def comment(self) -> Comment:
        author = NOBODY if self.user is None else self.user.login
        return Comment(self.number, author, self.body or "", self.html_url, "review")


class LineComment(msgspec.Struct, frozen=True):
    """`line` is missing once the change went on there, and of a comment on a whole file."""

    id: int
    path: str
    html_url: str
    pull_request_review_id: int | None = None
    body: str | None = None
    user: User | None = None
    line: int | None = None
    side: str | None = None

    def of(self, review: Review) -> Comment:
        author = NOBODY if self.user is None else self.user.login
        is_old = self.side == "LEFT"
        place = place_of(self.path, None if is_old else self.line, self.line if is_old else None)
        number = review.number_of(self.id)
        return Comment(number, author, self.body or "", self.html_url, "line", place)


class Label(msgspec.Struct, frozen=True):
    name: str | None = None


class WholeIssue(msgspec.Struct, frozen=True):
    number: int
    title: str
    html_url: str
    labels: list[Label | str]
    body: str | None = None
    repository_url: str = ""

    def issue(self, full_name: str) -> Issue:
        """`full_name` is where it was asked for; it may have been moved since."""
        owner_and_name = self.repository_url.rpartition("/repos/")[2]
        names = (one if isinstance(one, str) else one.name for one in self.labels)
        return Issue(
            full_name=owner_and_name or full_name,
            number=self.number,
            title=self.title,
            text=self.body or "",
            labels=tuple(name for name in names if name),
            url=self.html_url,
        )


class Role(msgspec.Struct, frozen=True):
    permission: str
    role_name: str = ""

    @property
    def may_write(self) -> bool:
        writing = {"admin", "maintain", "write"}
        return self.permission in writing or self.role_name in writing


def newest_of_branch(pulls: Iterable[Pull], branch: str) -> Pull | None:
    """The open one before all others: a branch has no two of them against one base."""
    own = [pull for pull in pulls if pull.head.ref == branch]
    return max(own, key=lambda pull: (pull.pull_state == "open", pull.number), default=None)
