"""What Gitea's API v1 answers (Forgejo's is the same), and what it means to us.

Pure. Refuses to know who asks, and how often.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from agentjobs.forges.protocol import (
    BranchPull,
    Comment,
    Issue,
    PullRequestRequest,
    PullState,
    RemotePull,
    RemoteRepository,
)
from agentjobs.forges.text import MAX_TITLE_CHARACTERS, title_of

# The column has room for more; a database behind a proxy may not.
MOST_BODY = 65_536
_DRAFT = "WIP: "
# Those that a server knows unless its operator names others.
_DRAFT_MARKS = re.compile(r"\s*(?:(?:wip:|\[wip\])\s*)+", re.IGNORECASE)
# In which somebody wrote on a Gitea.
_YEARS = range(2016, 3000)
_WRITING = frozenset({"write", "admin", "owner"})


class User(msgspec.Struct, frozen=True):
    login: str


class Permissions(msgspec.Struct, frozen=True):
    push: bool = False


class Repository(msgspec.Struct, frozen=True):
    id: int
    full_name: str
    default_branch: str = ""
    empty: bool = False
    archived: bool = False
    permissions: Permissions | None = None

    @property
    def seen(self) -> RemoteRepository:
        return RemoteRepository(
            external_id=str(self.id),
            full_name=self.full_name,
            # Of an empty one Gitea tells the branch that its first commit would make.
            default_branch="" if self.empty else self.default_branch,
            is_archived=self.archived,
            may_push=self.permissions is not None and self.permissions.push,
        )


class Label(msgspec.Struct, frozen=True):
    id: int
    name: str


class Team(msgspec.Struct, frozen=True):
    name: str


class Side(msgspec.Struct, frozen=True):
    """`label` stays the branch's name when the branch is gone; `ref` does not."""

    label: str = ""
    repo_id: int = -1
    sha: str = ""


class Pull(msgspec.Struct, frozen=True):
    """Lists may be null; `draft` was not told before 1.22."""

    number: int
    title: str
    state: Literal["open", "closed"]
    head: Side
    base: Side
    merged: bool = False
    draft: bool | None = None
    comments: int = 0
    user: User | None = None
    labels: list[Label] | None = None
    requested_reviewers: list[User] | None = None
    requested_reviewers_teams: list[Team] | None = None

    @property
    def pull_state(self) -> PullState:
        return "merged" if self.merged else self.state

    @property
    def is_draft(self) -> bool:
        return has_draft_mark(self.title) if self.draft is None else self.draft

    @property
    def plain_title(self) -> str:
        return without_draft_mark(self.title) or self.title

    @property
    def branch_pull(self) -> BranchPull:
        return BranchPull(self.number, self.plain_title, self.pull_state)

    @property
    def asked_reviewers(self) -> set[str]:
        """Logins and teams, as they are told apart from each other by a slash."""
        people = {user.login.casefold() for user in self.requested_reviewers or ()}
        return people | {
            f"/{team.name.casefold()}" for team in self.requested_reviewers_teams or ()
        }

    def is_of(self, branch: str) -> bool:
        """A fork's branch may have the same name."""
        return self.head.label == branch and self.head.repo_id == self.base.repo_id

    def is_twin_of(self, other: "Pull") -> bool:
        """Of the same two branches, and not that very one."""
        same_branches = self.is_of(other.head.label) and self.base.label == other.base.label
        return same_branches and self.number != other.number

    def now(self, head_commit: str, url: str) -> RemotePull:
        return RemotePull(
            self.number, self.plain_title, self.pull_state, self.is_draft, head_commit, url
        )


class GitObject(msgspec.Struct, frozen=True):
    sha: str


class Reference(msgspec.Struct, frozen=True):
    ref: str
    object: GitObject


# Older versions tell one alone if only one fits.
ONE_OR_SEVERAL_REFERENCES: Any = Reference | list[Reference]


def references_in(told: Reference | list[Reference]) -> list[Reference]:
    return told if isinstance(told, list) else [told]


class CommentAnswer(msgspec.Struct, frozen=True):
    id: int
    body: str
    user: User | None = None

    def at(self, page_url: str) -> Comment:
        author = self.user.login if self.user else ""
        return Comment(self.id, author, self.body, f"{page_url}#issuecomment-{self.id}")


class CommentTime(msgspec.Struct, frozen=True):
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]

    @property
    def an_hour_earlier(self) -> str | None:
        """Whatever has a higher number was not written before, even if clocks differ a little."""
        if self.created_at.year not in _YEARS:
            return None
        since = self.created_at.astimezone(UTC) - timedelta(hours=1)
        return since.strftime("%Y-%m-%dT%H:%M:%SZ")


class RepositoryName(msgspec.Struct, frozen=True):
    full_name: str


class IssueAnswer(msgspec.Struct, frozen=True):
    number: int
    title: str
    body: str = ""
    labels: list[Label] | None = None
    repository: RepositoryName | None = None

    def issue(self, full_name: str, url: str) -> Issue:
        """`full_name` is where it was asked for; `url` where people reach Gitea."""
        name_now = self.repository.full_name if self.repository else full_name
        page = f"{url}/{name_now}/issues/{self.number}"
        labels = tuple(label.name for label in self.labels or ())
        return Issue(name_now, self.number, self.title, self.body, labels, page)


class Access(msgspec.Struct, frozen=True):
    permission: str

    @property
    def may_write(self) -> bool:
        return self.permission in _WRITING


def title_for(request: PullRequestRequest) -> str:
    """Nothing but the request decides whether it is a draft, whatever an agent wrote."""
    plain = msgspec.structs.replace(request, title=without_draft_mark(request.title))
    return title_of(plain, _DRAFT if request.draft else "")


def draft_title(title: str) -> str:
    return f"{_DRAFT}{without_draft_mark(title)}"[:MAX_TITLE_CHARACTERS].rstrip()


def has_draft_mark(title: str) -> bool:
    return _DRAFT_MARKS.match(title) is not None


def without_draft_mark(title: str) -> str:
    found = _DRAFT_MARKS.match(title)
    return title if found is None else title[found.end() :]
