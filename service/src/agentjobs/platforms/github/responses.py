"""GitHub's responses, as far as they are used, and their conversion. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import msgspec

from agentjobs.platforms.http.client import MAX_PAGE_LENGTH
from agentjobs.platforms.protocol import (
    Comment,
    Issue,
    PullState,
    RemotePull,
    RemoteRepository,
)
from agentjobs.platforms.text import line_location

# The author that GitHub shows for content of deleted accounts.
DELETED_USER = "ghost"
# Distinguishes comments that were submitted within one second.
_IDS_PER_SECOND = 2**20


class User(msgspec.Struct, frozen=True):
    login: str
    id: int = 0
    name: str | None = None


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
    pushed_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    @property
    def may_be_empty(self) -> bool:
        """Small ones have size 0 too, and one without commits has a default branch as well."""
        return self.size == 0

    def to_remote(self, *, may_push: bool | None = None) -> RemoteRepository:
        """`may_push` overrides the response's permissions."""
        is_empty = self.may_be_empty and self.pushed_at is None
        has_push = self.permissions is None or self.permissions.push
        return RemoteRepository(
            external_id=str(self.id),
            full_name=self.full_name,
            default_branch="" if is_empty else self.default_branch or "",
            is_archived=self.archived or self.disabled,
            may_push=has_push if may_push is None else may_push,
            pushed_at=None if self.pushed_at is None else int(self.pushed_at.timestamp() * 1_000),
        )


class RepositoryPage(msgspec.Struct, frozen=True):
    repositories: Annotated[list[Repository], msgspec.Meta(max_length=MAX_PAGE_LENGTH)]


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
    def head_commit(self) -> str:
        return self.head.sha

    @property
    def remote_pull(self) -> RemotePull:
        return RemotePull(
            number=self.number,
            title=self.title,
            state=self.pull_state,
            draft=self.draft,
            head_commit=self.head.sha,
            url=self.html_url,
        )


class IssueComment(msgspec.Struct, frozen=True):
    id: int
    html_url: str
    body: str | None = None
    user: User | None = None

    @property
    def comment(self) -> Comment:
        author = DELETED_USER if self.user is None else self.user.login
        return Comment(self.id, author, self.body or "", self.html_url)


class Review(msgspec.Struct, frozen=True):
    """`submitted_at` is missing until the review is submitted."""

    id: int
    state: str
    html_url: str
    body: str | None = None
    user: User | None = None
    submitted_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    @property
    def is_submitted(self) -> bool:
        return self.state != "PENDING" and self.submitted_at is not None

    @property
    def text(self) -> str:
        return (self.body or "").strip()

    @property
    def comment_id(self) -> int:
        return self.build_comment_id(self.id)

    def build_comment_id(self, github_id: int) -> int:
        """An ID that increases with the time of submission. GitHub assigns its own when a person
        starts to write, and what is started first may be submitted last."""
        submitted = 0 if self.submitted_at is None else int(self.submitted_at.timestamp())
        return submitted * _IDS_PER_SECOND + github_id % _IDS_PER_SECOND

    @property
    def comment(self) -> Comment:
        author = DELETED_USER if self.user is None else self.user.login
        return Comment(self.comment_id, author, self.body or "", self.html_url, "review")


class LineComment(msgspec.Struct, frozen=True):
    """`line` is missing if the line has changed since, and for a comment on a whole file."""

    id: int
    path: str
    html_url: str
    pull_request_review_id: int | None = None
    body: str | None = None
    user: User | None = None
    line: int | None = None
    side: str | None = None

    def comment_in(self, review: Review) -> Comment:
        author = DELETED_USER if self.user is None else self.user.login
        is_old = self.side == "LEFT"
        location = line_location(
            self.path, None if is_old else self.line, self.line if is_old else None
        )
        comment_id = review.build_comment_id(self.id)
        return Comment(comment_id, author, self.body or "", self.html_url, "line", location)


class Label(msgspec.Struct, frozen=True):
    name: str | None = None


class IssueResponse(msgspec.Struct, frozen=True):
    number: int
    title: str
    html_url: str
    labels: list[Label | str]
    body: str | None = None
    repository_url: str = ""

    def issue(self, full_name: str) -> Issue:
        """`full_name` is the repository it was requested from; the issue may have been moved."""
        owner_and_name = self.repository_url.rpartition("/repos/")[2]
        names = (label if isinstance(label, str) else label.name for label in self.labels)
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
        write_roles = {"admin", "maintain", "write"}
        return self.permission in write_roles or self.role_name in write_roles


def newest_of_branch(pulls: Iterable[Pull], branch: str) -> Pull | None:
    """The open one if there is one: a branch has at most one open pull request per base."""
    own = [pull for pull in pulls if pull.head.ref == branch]
    return max(own, key=lambda pull: (pull.pull_state == "open", pull.number), default=None)
