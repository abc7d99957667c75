"""GitLab's responses, as far as they are used, and texts as GitLab expects them. Pure."""

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from agentjobs.platforms.protocol import (
    Comment,
    Issue,
    PullState,
    RemotePull,
    RemoteRepository,
)
from agentjobs.platforms.text import DraftMark, line_location, truncate
from agentjobs_runtime.git.identity import Identity

# The lowest role that may push and open merge requests.
DEVELOPER = 30
# Half of what GitLab accepts: escaping makes a text longer.
_MAX_TEXT_BYTES = 500_000
DRAFT_MARK = DraftMark(
    "Draft: ", re.compile(r"\s*(?:(?:\[draft\]|\(draft\)|draft:)\s*)+", re.IGNORECASE)
)
_BOT_ACCOUNT = re.compile(r"(project|group)_\d+_bot|service_account_")
# A line such as "/merge" is a quick action, which GitLab would run as the connection's account.
_QUICK_ACTION = re.compile(r"^/(?=\w+(?:\s|$))", re.MULTILINE)

_MAY_BE_MERGEABLE = frozenset(
    {
        *("mergeable", "can_be_merged", "unchecked", "checking", "preparing", "approvals_syncing"),
        *("cannot_be_merged_recheck", "cannot_be_merged_rechecking"),
    }
)

MergeState = Literal["opened", "closed", "locked", "merged"]
# Locked while it is being merged.
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
    name: str = ""
    # Only GitLab's response for the token's own account has it.
    commit_email: str | None = None

    @property
    def is_own(self) -> bool:
        """A bot or service account; older versions show that only in the name."""
        return self.bot or _BOT_ACCOUNT.match(self.username) is not None

    def identity(self, url: str) -> Identity | None:
        """With the address that the account chose for commits, or else the private one, which
        GitLab links to the account as well; `url` is GitLab's."""
        host = urlsplit(url).hostname or ""
        private_address = f"{self.id}-{self.username}@users.noreply.{host}"
        return Identity.clean(self.name or self.username, self.commit_email or private_address)


class Token(msgspec.Struct, frozen=True):
    scopes: list[str] = []


class Access(msgspec.Struct, frozen=True):
    """A role in a project; `state` is the account's, `membership_state` the invitation's."""

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
        accesses = (self.project_access, self.group_access)
        return any(access is not None and access.may_write for access in accesses)


class Project(msgspec.Struct, frozen=True):
    id: int
    path_with_namespace: str
    default_branch: str | None = None
    archived: bool = False
    empty_repo: bool = False
    permissions: Permissions | None = None

    def to_remote(self, *, may_push: bool) -> RemoteRepository:
        return RemoteRepository(
            external_id=str(self.id),
            full_name=self.path_with_namespace,
            # For an empty one GitLab returns the branch that its first commit would create.
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
    merge_status: str = ""
    # Since 15.6.
    detailed_merge_status: str = ""

    @property
    def may_be_mergeable(self) -> bool:
        """True while GitLab has not checked it."""
        return (self.detailed_merge_status or self.merge_status) in _MAY_BE_MERGEABLE

    @property
    def is_of_project(self) -> bool:
        """A fork's branch may have the same name."""
        return self.source_project_id == self.target_project_id

    @property
    def number(self) -> int:
        return self.iid

    @property
    def head_commit(self) -> str:
        return self.sha or ""

    @property
    def pull_state(self) -> PullState:
        return _STATES[self.state]

    @property
    def plain_title(self) -> str:
        return DRAFT_MARK.remove(self.title) or self.title

    @property
    def remote_pull(self) -> RemotePull:
        return RemotePull(
            self.iid, self.plain_title, self.pull_state, self.draft, self.head_commit, self.web_url
        )


class Position(msgspec.Struct, frozen=True):
    """An unchanged line has a number in both versions."""

    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None

    @property
    def location(self) -> str:
        return line_location(self.new_path or self.old_path or "", self.new_line, self.old_line)


class Note(msgspec.Struct, frozen=True):
    """`system`: GitLab wrote it to record an action; `position` is that of a note on a line."""

    id: int
    body: str
    author: User
    system: bool = False
    position: Position | None = None

    def comment(self, page_url: str) -> Comment:
        url = f"{page_url}#note_{self.id}"
        location = "" if self.position is None else self.position.location
        return Comment(self.id, self.author.username, self.body, url, location=location)


class IssueResponse(msgspec.Struct, frozen=True):
    iid: int
    title: str
    web_url: str
    description: str | None = None
    labels: list[str] = []

    def issue(self, full_name: str) -> Issue:
        text = self.description or ""
        return Issue(full_name, self.iid, self.title, text, tuple(self.labels), self.web_url)


def newest_of_branch(merge_requests: list[MergeRequest]) -> MergeRequest | None:
    """The open one, else the newest; the list starts with the newest."""
    own = [merge_request for merge_request in merge_requests if merge_request.is_of_project]
    opened = (merge_request for merge_request in own if merge_request.pull_state == "open")
    return next(opened, own[0] if own else None)


def escape_quick_actions(text: str) -> str:
    """Escape quick actions; GitLab removes carriage returns before it looks for them."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    # Truncate first: truncation may leave a quick action. The backslash is not shown.
    return _QUICK_ACTION.sub(r"\\/", truncate(lines, _MAX_TEXT_BYTES))
