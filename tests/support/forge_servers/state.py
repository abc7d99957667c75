"""The state of a contract server: small tables that tests fill, without rules of any platform."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Literal

Role = Literal["none", "read", "triage", "write", "maintain", "admin"]
# `title` and `key`, and what only one platform has.
SshKey = dict[str, str]
WRITING: frozenset[Role] = frozenset({"write", "maintain", "admin"})


@dataclass
class User:
    id: int
    login: str
    is_bot: bool = False
    name: str = ""
    hides_email: bool = False

    @property
    def email(self) -> str:
        return f"{self.login}@example.com"


@dataclass
class CommentRow:
    id: int
    author: str
    text: str
    # Written by the platform itself, such as "changed the title": GitLab lists them among notes.
    is_system: bool = False
    written_at: str = "2026-01-02T03:04:05Z"


@dataclass
class LineRow(CommentRow):
    """`old_line` is a line that the change removed; with neither, the comment is outdated."""

    path: str = ""
    line: int | None = None
    old_line: int | None = None


@dataclass
class ReviewRow(CommentRow):
    """`text` is the summary; only the author sees a pending review."""

    lines: list[LineRow] = field(default_factory=list)
    is_pending: bool = False


@dataclass
class HookRow:
    """`paused_until` and `is_disabled` are GitLab's; `last_response` is GitHub's."""

    id: int
    url: str
    secret: str
    events: list[str]
    content_type: str = "json"
    is_active: bool = True
    last_response: int | None = None
    paused_until: str | None = None
    is_disabled: bool = False


@dataclass
class StatusRow:
    """A commit status, or a check run; `state` is as the platform names it."""

    id: int
    commit: str
    name: str
    state: str
    description: str
    url: str
    is_check_run: bool = False


@dataclass
class IssueRow:
    number: int
    title: str
    text: str = ""
    state: Literal["open", "closed"] = "open"
    labels: list[str] = field(default_factory=list)
    author: str = "ada"
    comments: list[CommentRow] = field(default_factory=list)


@dataclass
class PullRow(IssueRow):
    head: str = ""
    base: str = "main"
    # Set when it was closed; while it is open, the branch has the head.
    head_commit: str = ""
    # The owner of the fork with the branch; empty for the repository itself.
    fork_owner: str = ""
    is_draft: bool = False
    is_merged: bool = False
    # Known once somebody has tried to merge it.
    has_conflicts: bool = False
    reviewers: list[str] = field(default_factory=list)
    team_reviewers: list[str] = field(default_factory=list)
    reviews: list[ReviewRow] = field(default_factory=list)

    @property
    def lines(self) -> list[LineRow]:
        """Published line comments, ordered by ID."""
        sent = (line for review in self.reviews if not review.is_pending for line in review.lines)
        return sorted(sent, key=lambda line: line.id)


@dataclass
class RepositoryRow:
    """`roles` are those of people; `own_role` that of the connection's account."""

    id: int
    full_name: str
    default_branch: str = "main"
    is_private: bool = True
    is_archived: bool = False
    is_empty: bool = False
    has_issues: bool = True
    own_role: Role = "write"
    roles: dict[str, Role] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    issues: dict[int, IssueRow] = field(default_factory=dict)
    pulls: dict[int, PullRow] = field(default_factory=dict)
    former_names: list[str] = field(default_factory=list)
    hooks: list[HookRow] = field(default_factory=list)
    statuses: list[StatusRow] = field(default_factory=list)
    # Branches that no push may change.
    protected: set[str] = field(default_factory=set)
    # In seconds, as GitHub tells it.
    pushed_at: str = "2026-01-02T03:04:05Z"
    # What the platform prints when it refuses every push; empty if it accepts them.
    push_refusal: str = ""
    # Why no pull request may be merged; empty if they may.
    merge_refusal: str = ""
    # How many requests to merge come before the platform has looked for conflicts.
    unchecked_merges: int = 0
    # False if issues and pull requests are numbered separately, as on GitLab.
    shares_numbers: bool = True

    @property
    def owner(self) -> str:
        return self.full_name.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.full_name.rpartition("/")[2]

    def record_push(self) -> None:
        self.pushed_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def next_number(self, of: Literal["issue", "pull"]) -> int:
        own: Iterable[int] = self.pulls if of == "pull" else self.issues
        other: Iterable[int] = self.issues if of == "pull" else self.pulls
        used = [*own, *(other if self.shares_numbers else ())]
        return max(used, default=0) + 1

    def pull_of_branch(self, branch: str) -> Iterator[PullRow]:
        """The newest first; branches of forks are ignored."""
        own = (pull for pull in reversed(self.pulls.values()) if not pull.fork_owner)
        yield from (pull for pull in own if pull.head == branch)

    def hook(self, hook_id: str) -> HookRow | None:
        return next((hook for hook in self.hooks if str(hook.id) == hook_id), None)


class State:
    def __init__(self, account: str = "agentjobs-bot") -> None:
        self.account = account
        self.repositories: dict[int, RepositoryRow] = {}
        self.users: dict[str, User] = {}
        # "owner/slug"
        self.teams: set[str] = set()
        # Of the connection's account.
        self.ssh_keys: list[SshKey] = []
        self._ids = count(1_000)
        self.add_user(account)

    def next_id(self) -> int:
        """Increases over all rows, so that a later comment has a higher ID."""
        return next(self._ids)

    def add_user(self, login: str, *, is_bot: bool = False) -> User:
        user = User(self.next_id(), login, is_bot)
        self.users[login] = user
        return user

    def user(self, login: str) -> User:
        """Returns or adds the user: authors need not be added before."""
        return self.users.get(login) or self.add_user(login)

    def user_by_id(self, identifier: int) -> User | None:
        return next((user for user in self.users.values() if user.id == identifier), None)

    def add_repository(self, full_name: str, **fields: object) -> RepositoryRow:
        row = RepositoryRow(self.next_id(), full_name, **fields)  # type: ignore[arg-type]
        self.repositories[row.id] = row
        return row

    def rename(self, repository: RepositoryRow, full_name: str) -> None:
        repository.former_names.append(repository.full_name)
        repository.full_name = full_name

    def by_name(self, full_name: str) -> RepositoryRow | None:
        """Platforms ignore case in names."""
        key = full_name.casefold()
        rows = self.repositories.values()
        return next((row for row in rows if row.full_name.casefold() == key), None)

    def by_former_name(self, full_name: str) -> RepositoryRow | None:
        rows = self.repositories.values()
        return next((row for row in rows if full_name in row.former_names), None)

    def add_issue(self, repository: RepositoryRow, title: str, **fields: object) -> IssueRow:
        row = IssueRow(repository.next_number("issue"), title, **fields)  # type: ignore[arg-type]
        repository.issues[row.number] = row
        return row

    def add_pull(
        self, repository: RepositoryRow, title: str, head: str, **fields: object
    ) -> PullRow:
        number = repository.next_number("pull")
        row = PullRow(number, title, head=head, **fields)  # type: ignore[arg-type]
        repository.pulls[number] = row
        return row

    def add_comment(self, row: IssueRow, author: str, text: str, **fields: object) -> CommentRow:
        comment = CommentRow(self.next_id(), author, text, **fields)  # type: ignore[arg-type]
        row.comments.append(comment)
        return comment

    def add_review(self, row: PullRow, author: str, text: str = "", **fields: object) -> ReviewRow:
        review = ReviewRow(self.next_id(), author, text, **fields)  # type: ignore[arg-type]
        row.reviews.append(review)
        return review

    def add_line(self, review: ReviewRow, text: str, path: str, **fields: object) -> LineRow:
        """By the review's author, unless `author` is another user who replies."""
        given = {"author": review.author, "written_at": review.written_at, **fields}
        line = LineRow(self.next_id(), text=text, path=path, **given)  # type: ignore[arg-type]
        review.lines.append(line)
        return line
