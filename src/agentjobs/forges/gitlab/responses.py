"""What GitLab's REST API answers, and what it means to us; how GitLab wants to be written to.

Pure. Refuses to know who asks, and how often.
"""

import re
from collections.abc import Mapping
from typing import Literal

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
from agentjobs.forges.text import MAX_TITLE_CHARACTERS, cut, place_of, title_of

# Whoever has at least the role Developer may push and open merge requests.
DEVELOPER = 30
# Half of what GitLab takes at least: what makes a text harmless makes it longer.
_MOST_TEXT = 500_000
_DRAFT = "Draft: "
_DRAFT_MARKS = re.compile(r"\s*(?:(?:\[draft\]|\(draft\)|draft:)\s*)+", re.IGNORECASE)
_OWN_ACCOUNT = re.compile(r"(project|group)_\d+_bot|service_account_")
# A line such as "/merge" is an order to GitLab, given in the name of the connection's account.
_ORDER = re.compile(r"^/(?=\w+(?:\s|$))", re.MULTILINE)

MergeState = Literal["opened", "closed", "locked", "merged"]
# Locked for the moment in which it is being merged.
_STATES: Mapping[MergeState, PullState] = {
    "opened": "open",
    "locked": "open",
    "closed": "closed",
    "merged": "merged",
}


class User(msgspec.Struct, frozen=True):
    id: int
    username: str
    bot: bool = False

    @property
    def is_own(self) -> bool:
        """Made for a token or a service: older versions tell it by the name alone."""
        return self.bot or _OWN_ACCOUNT.match(self.username) is not None


class Token(msgspec.Struct, frozen=True):
    scopes: list[str] = []


class Access(msgspec.Struct, frozen=True):
    """A role in a project; `state` is the account's, `membership_state` that of an invitation."""

    access_level: int
    state: str = "active"
    membership_state: str = "active"

    @property
    def may_write(self) -> bool:
        is_active = self.state == self.membership_state == "active"
        return is_active and self.access_level >= DEVELOPER


class Permissions(msgspec.Struct, frozen=True):
    project_access: Access | None = None
    group_access: Access | None = None

    @property
    def may_push(self) -> bool:
        given = (self.project_access, self.group_access)
        return any(access is not None and access.may_write for access in given)


class Project(msgspec.Struct, frozen=True):
    id: int
    path_with_namespace: str
    default_branch: str | None = None
    archived: bool = False
    empty_repo: bool = False
    permissions: Permissions | None = None

    def seen(self, *, may_push: bool) -> RemoteRepository:
        return RemoteRepository(
            external_id=str(self.id),
            full_name=self.path_with_namespace,
            # Of an empty one GitLab tells the branch that its first commit would make.
            default_branch="" if self.empty_repo else self.default_branch or "",
            is_archived=self.archived,
            may_push=may_push,
        )


class MergeRequest(msgspec.Struct, frozen=True):
    iid: int
    title: str
    state: MergeState
    web_url: str
    source_project_id: int | None = None
    target_project_id: int | None = None
    sha: str | None = None
    draft: bool = False
    labels: list[str] = []
    reviewers: list[User] = []

    @property
    def is_of_project(self) -> bool:
        """A fork's branch may have the same name."""
        return self.source_project_id == self.target_project_id

    @property
    def pull_state(self) -> PullState:
        return _STATES[self.state]

    @property
    def plain_title(self) -> str:
        return without_draft_mark(self.title) or self.title

    @property
    def branch_pull(self) -> BranchPull:
        return BranchPull(self.iid, self.plain_title, self.pull_state)

    @property
    def now(self) -> RemotePull:
        return RemotePull(
            self.iid, self.plain_title, self.pull_state, self.draft, self.sha or "", self.web_url
        )


class Position(msgspec.Struct, frozen=True):
    """A line that is neither new nor gone has a number in both versions."""

    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None

    @property
    def place(self) -> str:
        return place_of(self.new_path or self.old_path or "", self.new_line, self.old_line)


class Note(msgspec.Struct, frozen=True):
    """`system`: GitLab itself tells what somebody did; `position` is that of a note on a line."""

    id: int
    body: str
    author: User
    system: bool = False
    position: Position | None = None

    def at(self, page_url: str) -> Comment:
        url = f"{page_url}#note_{self.id}"
        place = "" if self.position is None else self.position.place
        return Comment(self.id, self.author.username, self.body, url, place=place)


class IssueAnswer(msgspec.Struct, frozen=True):
    iid: int
    title: str
    web_url: str
    description: str | None = None
    labels: list[str] = []

    def issue(self, full_name: str) -> Issue:
        text = self.description or ""
        return Issue(full_name, self.iid, self.title, text, tuple(self.labels), self.web_url)


def newest_of_branch(found: list[MergeRequest]) -> MergeRequest | None:
    """The open one, else the newest; `found` begins with the newest."""
    own = [one for one in found if one.is_of_project]
    is_open = (one for one in own if one.pull_state == "open")
    return next(is_open, own[0] if own else None)


def title_for(request: PullRequestRequest) -> str:
    """Nothing but the request decides whether it is a draft, whatever an agent wrote."""
    plain = msgspec.structs.replace(request, title=without_draft_mark(request.title))
    return title_of(plain, _DRAFT if request.draft else "")


def draft_title(title: str) -> str:
    return f"{_DRAFT}{without_draft_mark(title)}"[:MAX_TITLE_CHARACTERS].rstrip()


def without_draft_mark(title: str) -> str:
    found = _DRAFT_MARKS.match(title)
    return title if found is None else title[found.end() :]


def harmless(text: str) -> str:
    """As it reads, with no order in it. GitLab drops carriage returns before it looks for one."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    # Cut first: what a cut leaves over may be an order. The backslash is not shown.
    return _ORDER.sub(r"\\/", cut(lines, _MOST_TEXT))
