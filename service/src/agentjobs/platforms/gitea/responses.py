"""Responses of Gitea's API v1 (Forgejo's is the same), as far as they are used. Pure."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from agentjobs.platforms.protocol import (
    Comment,
    Issue,
    PullState,
    RemotePull,
    RemoteRepository,
)
from agentjobs.platforms.text import DraftMark
from agentjobs_runtime.git.identity import Identity

# The column is larger, but a database behind a proxy may accept less.
MAX_BODY_BYTES = 65_536
# Plausible years of a comment.
_YEARS = range(2016, 3000)
# The default marks; an operator may configure others.
DRAFT_MARK = DraftMark("WIP: ", re.compile(r"\s*(?:(?:wip:|\[wip\])\s*)+", re.IGNORECASE))
_WRITE_ROLES = frozenset({"write", "admin", "owner"})
# The unit of a repository that pushes need.
_CODE = "repo.code"


class User(msgspec.Struct, frozen=True):
    """`email` is a no-reply address if the account hides its own, except from itself."""

    login: str
    full_name: str = ""
    email: str = ""

    @property
    def identity(self) -> Identity | None:
        return Identity.clean(self.full_name or self.login, self.email)


class UserSettings(msgspec.Struct, frozen=True):
    hide_email: bool = False


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
    def remote(self) -> RemoteRepository:
        return RemoteRepository(
            external_id=str(self.id),
            full_name=self.full_name,
            # For an empty one Gitea returns the branch that its first commit would create.
            default_branch="" if self.empty else self.default_branch,
            is_archived=self.archived,
            may_push=self.permissions is not None and self.permissions.push,
        )


class Label(msgspec.Struct, frozen=True):
    id: int
    name: str


class Team(msgspec.Struct, frozen=True):
    """`units_map` has the permission for each unit; `permission` is the one for all of them."""

    name: str
    id: int = 0
    permission: str = ""
    units_map: dict[str, str] | None = None

    @property
    def may_write(self) -> bool:
        return bool({self.permission, (self.units_map or {}).get(_CODE)} & _WRITE_ROLES)


class Side(msgspec.Struct, frozen=True):
    """`label` stays the branch's name after the branch is deleted; `ref` does not."""

    label: str = ""
    repo_id: int = -1
    sha: str = ""


class Pull(msgspec.Struct, frozen=True):
    """Lists may be null; `draft` does not exist before 1.22."""

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
    def head_commit(self) -> str:
        return self.head.sha

    @property
    def pull_state(self) -> PullState:
        return "merged" if self.merged else self.state

    @property
    def is_draft(self) -> bool:
        return DRAFT_MARK.is_in(self.title) if self.draft is None else self.draft

    @property
    def plain_title(self) -> str:
        return DRAFT_MARK.remove(self.title) or self.title

    @property
    def requested_names(self) -> set[str]:
        """Logins, and teams with a leading slash."""
        people = {user.login.casefold() for user in self.requested_reviewers or ()}
        return people | {
            f"/{team.name.casefold()}" for team in self.requested_reviewers_teams or ()
        }

    def is_from(self, branch: str) -> bool:
        """A fork's branch may have the same name."""
        return self.head.label == branch and self.head.repo_id == self.base.repo_id

    def is_duplicate(self, other: "Pull") -> bool:
        """Another pull request with the same two branches."""
        same_branches = self.is_from(other.head.label) and self.base.label == other.base.label
        return same_branches and self.number != other.number

    def remote_pull(self, url: str) -> RemotePull:
        return RemotePull(
            self.number, self.plain_title, self.pull_state, self.is_draft, self.head_commit, url
        )


class GitObject(msgspec.Struct, frozen=True):
    sha: str


class Reference(msgspec.Struct, frozen=True):
    ref: str
    object: GitObject


# Older versions return a single object if only one matches.
ONE_OR_MORE_REFERENCES: Any = Reference | list[Reference]


def as_list(references: Reference | list[Reference]) -> list[Reference]:
    return references if isinstance(references, list) else [references]


class CommentResponse(msgspec.Struct, frozen=True):
    id: int
    body: str
    user: User | None = None

    def comment(self, page_url: str) -> Comment:
        author = self.user.login if self.user else ""
        return Comment(self.id, author, self.body, f"{page_url}#issuecomment-{self.id}")


class CommentTime(msgspec.Struct, frozen=True):
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]

    @property
    def one_hour_earlier(self) -> str | None:
        """Comments with higher IDs are not older, even if clocks differ a little."""
        if self.created_at.year not in _YEARS:
            return None
        since = self.created_at.astimezone(UTC) - timedelta(hours=1)
        return since.strftime("%Y-%m-%dT%H:%M:%SZ")


class RepositoryName(msgspec.Struct, frozen=True):
    full_name: str


class IssueResponse(msgspec.Struct, frozen=True):
    number: int
    title: str
    body: str = ""
    labels: list[Label] | None = None
    repository: RepositoryName | None = None

    def issue(self, full_name: str, url: str) -> Issue:
        """`full_name` is the repository it was requested from; `url` is Gitea's web address."""
        current_name = self.repository.full_name if self.repository else full_name
        page = f"{url}/{current_name}/issues/{self.number}"
        labels = tuple(label.name for label in self.labels or ())
        return Issue(current_name, self.number, self.title, self.body, labels, page)


class Access(msgspec.Struct, frozen=True):
    permission: str

    @property
    def may_write(self) -> bool:
        return self.permission in _WRITE_ROLES
