"""A platform of the tests' own, with a real git server, and what looks at it, on a store."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from agentjobs.clock import now_ms
from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection, add_connection
from agentjobs.connections.repositories import connect_repositories
from agentjobs.forges.comments import NewerComments
from agentjobs.forges.connection import Connection
from agentjobs.forges.hooks import HookEvent
from agentjobs.forges.protocol import (
    Account,
    BranchPull,
    Comment,
    CommentCursor,
    CommentKind,
    ForgeError,
    Issue,
    Platform,
    PullRequest,
    PullRequestRequest,
    RemotePull,
    RemoteRepository,
    RepoAddress,
)
from agentjobs.git.remote import Remote
from agentjobs.local_git import repositories as local_repositories
from agentjobs.loops.platform_loop import PlatformLoop
from agentjobs.organizations.organizations import ensure_default
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platform_sync.claims import PlatformRepo
from agentjobs.platform_sync.hook_events import record_hook_delivery
from agentjobs.platform_sync.sync import PlatformSync
from agentjobs.pulls.platform_rows import record_pull
from agentjobs.settings import Settings
from agentjobs.settings.tables import DEFAULT_PLANS
from agentjobs.store.database import Database, Row, Transaction

ORGANIZATION = "default"
SHOP = "41"


@dataclass
class TownHall:
    """Fulfils `Platform` from what a test puts into its tables."""

    remote: Remote
    platform: str = "gitea"
    seen: dict[str, RemoteRepository] = field(default_factory=dict)
    pulls: dict[int, RemotePull] = field(default_factory=dict)
    said: list[tuple[int, Comment]] = field(default_factory=list)
    faults: dict[str, ForgeError] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    # By which name it was asked last.
    called: str = ""

    def _ask(self, method: str, repo: RepoAddress) -> None:
        self.asked[method] += 1
        self.called = repo.full_name
        if method in self.faults:
            raise self.faults[method]

    @asynccontextmanager
    async def open_remote(self, repo: RepoAddress, credential: str) -> AsyncIterator[Remote]:
        assert not credential
        self._ask("open_remote", repo)
        yield self.remote

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        for repository in self.seen.values():
            yield repository

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        self._ask("repository", repo)
        for seen in self.seen.values():
            if repo.external_id == seen.external_id:
                return seen
            if not repo.external_id and repo.full_name == seen.full_name:
                return seen
        raise ForgeError("Not Found", "gone")

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull:
        self._ask("pull", repo)
        if number not in self.pulls:
            raise ForgeError("Not Found", "gone")
        return self.pulls[number]

    async def comments(self, repo: RepoAddress, number: int, heard: CommentCursor) -> list[Comment]:
        self._ask("comments", repo)
        after = {"comment": heard.comments, "line": heard.lines, "review": heard.reviews}
        said = {kind: NewerComments(self.platform, seen) for kind, seen in after.items()}
        for on, one in self.said:
            said[one.kind].add([one] if on == number else [])
        return [one for newer in said.values() for one in newer.oldest_first]

    async def check(self) -> Account:
        return Account("agentjobs", is_own=True)

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        raise NotImplementedError

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        raise NotImplementedError

    async def issue(self, full_name: str, number: int) -> Issue:
        raise NotImplementedError

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        raise NotImplementedError

    async def open_pull_request(
        self, repo: RepoAddress, credential: str, request: PullRequestRequest
    ) -> PullRequest:
        raise NotImplementedError

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        raise NotImplementedError


@dataclass
class PlatformHouse:
    """`ready` and `heard` are what the listeners were told; `deaf` makes one of them fail."""

    db: Database
    settings: Settings
    hall: TownHall
    connection: Connection
    hook_secret: str
    loop: PlatformLoop = field(init=False)
    ready: list[int] = field(default_factory=list)
    heard: list[tuple[str, int, str]] = field(default_factory=list)
    deaf: dict[str, BaseException] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """As a process that was killed and begins anew."""
        sync = PlatformSync(self.db, self, self.settings, self._on_ready, self._on_comment)
        self.loop = PlatformLoop(self.db, sync)

    async def adapter_for(self, connection_id: str, _: object = None, /) -> Platform:
        assert connection_id.startswith("fcn_")
        return self.hall

    async def connect(self, *names: str) -> None:
        """All that the platform shows, unless some are named."""
        found = await connect_repositories(
            self.db, cast("Platforms", self), ORGANIZATION, self.connection.name, names or None
        )
        assert [one.problem for one in found] == [None] * len(found)

    async def look(self) -> Row:
        """Once at all of it, whenever that would be due; the row of the shop afterwards."""
        await self.execute("UPDATE repos SET whole_due_at = NULL WHERE external_id = :id", id=SHOP)
        return await self.glance()

    async def glance(self) -> Row:
        """As `look`, but only at what the platform told of."""
        await self.execute("UPDATE repos SET sync_due_at = 1 WHERE external_id = :id", id=SHOP)
        await self.execute("UPDATE forge_connections SET resting_until = NULL")
        assert await self.loop.sync_one()
        return await self.row()

    async def told(self, delivery_id: str, hint: HookEvent) -> None:
        """By a hook, and worked off."""
        await record_hook_delivery(self.db, self.connection.id, delivery_id, hint)
        await self.loop.process_hook_events()

    async def row(self, external_id: str = SHOP) -> Row:
        row = await self.db.fetch_one(
            "SELECT * FROM repos WHERE external_id = :id AND disconnected_at IS NULL",
            id=external_id,
        )
        assert row is not None
        return row

    async def pull(self, number: int) -> dict[str, Any]:
        row = await self.db.fetch_one("SELECT * FROM pulls WHERE number = :number", number=number)
        assert row is not None
        return dict(row)

    async def opened(self, number: int, **facts: Any) -> None:
        """A pull request of ours, here and there."""
        now = RemotePull(number, f"Fix {number}", "open", False, "a" * 40, f"https://x/{number}")
        self.hall.pulls[number] = msgspec.structs.replace(now, **facts)
        request = PullRequestRequest(
            head_branch=f"agentjobs/fixer/{number}",
            base_branch="main",
            head_commit="a" * 40,
            base_commit="b" * 40,
            title=f"Fix {number}",
            body="",
        )
        pull = PullRequest(number, f"https://x/{number}", draft=self.hall.pulls[number].draft)
        repo_id = (await self.row())["id"]
        await self.db.transact(record_pull, repo_id, request, pull)

    def became(self, number: int, **facts: Any) -> None:
        self.hall.pulls[number] = msgspec.structs.replace(self.hall.pulls[number], **facts)

    def says(self, number: int, comment_id: int, text: str, kind: CommentKind = "comment") -> None:
        self.hall.said.append((number, Comment(comment_id, "ada", text, "https://x", kind)))

    def is_seen_as(self, external_id: str = SHOP, **facts: Any) -> None:
        was = self.hall.seen.get(external_id, RemoteRepository(external_id, "acme/shop", "main"))
        self.hall.seen[external_id] = msgspec.structs.replace(was, **facts)

    def copy(self, repo: Row) -> str:
        return str(local_repositories.path(self.settings.data_path, repo["id"]))

    async def execute(self, sql: str, **parameters: Any) -> None:
        async def run(tx: Transaction) -> None:
            await tx.execute(sql, **parameters)

        await self.db.transact(run)

    async def wait_seconds(self) -> float:
        """Until the shop is looked at again."""
        return ((await self.row())["sync_due_at"] - now_ms()) / 1000

    async def _on_ready(self, tx: Transaction, repo_id: str, number: int) -> None:
        assert await tx.fetch_one("SELECT id FROM repos WHERE id = :id", id=repo_id)
        self.ready.append(number)

    async def _on_comment(
        self, repo: PlatformRepo, number: int, comment: Comment, platform: Platform
    ) -> None:
        assert platform is self.hall
        if comment.text in self.deaf:
            raise self.deaf[comment.text]
        self.heard.append((repo.full_name, number, comment.text))


async def platform_house(db: Database, settings: Settings, remote: Remote) -> PlatformHouse:
    """A connection to a platform with one repository, `acme/shop`; nothing is connected yet."""
    await ensure_default(db, Plans(DEFAULT_PLANS))
    new = NewConnection(platform="gitea", credential="t0ken", url="https://git.example.org")
    added = await add_connection(db, SealingKeys.load(settings), ORGANIZATION, new)
    hall = TownHall(remote)
    found = PlatformHouse(db, settings, hall, added.connection, added.hook_secret)
    found.is_seen_as(SHOP)
    return found
