"""An in-memory platform with a real git server, and a service that syncs with it."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection
from agentjobs.connections.repositories import connect_repositories
from agentjobs.jobs.model import CreateJobRequest
from agentjobs.jobs.operations.finish import finish_job
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.jobs.queue.insert import NewJob, insert_job
from agentjobs.jobs.queue.start import start_job
from agentjobs.local_git import repositories as local_repositories
from agentjobs.loops.platform_loop import PlatformLoop
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.organizations import ensure_default
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platform_sync.hook_events import record_hook_delivery
from agentjobs.platform_sync.sync import PlatformSync
from agentjobs.platforms.comments import NewerComments
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.hooks import HookEvent
from agentjobs.platforms.protocol import (
    Account,
    BranchPull,
    Comment,
    CommentCursor,
    CommentKind,
    CommitStatus,
    Issue,
    MergeMethod,
    Platform,
    PlatformError,
    PullRequest,
    PullRequestRequest,
    RemoteHook,
    RemotePull,
    RemoteRepository,
    RepoAddress,
)
from agentjobs.pulls.platform_pulls import record_pull
from agentjobs.store.database import Database, Row, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.protocol.outcomes import Completed
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from agentjobs_worker.agents.catalog import Catalog
from tests.support.added_connections import add_connection
from tests.support.jobs import an_agent, claim_job
from tests.support.repo_rows import SELECT, write_repos

ORGANIZATION = "default"
SHOP = "41"
HEAD, BASE = "a" * 40, "b" * 40


@dataclass
class FakeHooks:
    """Implements `PlatformHooks` from a list of webhooks; `secrets` are those of the created."""

    rows: list[RemoteHook] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    app_hook: RemoteHook | None = None
    faults: dict[str, PlatformError] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)

    async def shared(self) -> RemoteHook | None:
        return self.app_hook

    async def of_repository(self, repo: RepoAddress) -> list[RemoteHook]:
        assert repo.full_name
        self._request("list")
        return list(self.rows)

    async def create(self, repo: RepoAddress, url: str, secret: str) -> RemoteHook:
        assert repo.full_name
        self.requests["create"] += 1
        hook = RemoteHook(hook_id=str(self.requests["create"]), target_url=url, is_complete=True)
        self.rows.append(hook)
        self.secrets[hook.hook_id] = secret
        # The response may be lost although the webhook exists.
        if "create" in self.faults:
            raise self.faults["create"]
        return hook

    async def delete(self, repo: RepoAddress, hook_id: str) -> None:
        assert repo.full_name
        self._request("delete")
        self.rows[:] = [row for row in self.rows if row.hook_id != hook_id]

    def _request(self, method: str) -> None:
        self.requests[method] += 1
        if method in self.faults:
            raise self.faults[method]


@dataclass
class FakePlatform:
    """Implements `Platform` from tables that a test fills.

    `requests` counts calls by method and `faults` makes them fail. `permission_faults` makes the
    question fail whether a person may write; `missing` are permissions that the account lacks.
    `replies` are the service's own comments, each with
    the author whose permission was asked for just before.
    """

    remote: Remote
    platform: str = "gitea"
    merge_methods: tuple[MergeMethod, ...] = ("merge", "squash")
    hooks: FakeHooks = field(default_factory=FakeHooks)
    repos: dict[str, RemoteRepository] = field(default_factory=dict)
    pulls: dict[int, RemotePull] = field(default_factory=dict)
    posted: list[tuple[int, Comment]] = field(default_factory=list)
    faults: dict[str, PlatformError] = field(default_factory=dict)
    permission_faults: dict[str, BaseException] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    replies: list[tuple[str, int, str]] = field(default_factory=list)
    pull_of_any_branch: BranchPull | None = None
    statuses: list[CommitStatus] = field(default_factory=list)
    missing: tuple[str, ...] = ()
    last_full_name: str = ""
    last_author: str = ""

    def _request(self, method: str, repo: RepoAddress) -> None:
        self.requests[method] += 1
        self.last_full_name = repo.full_name
        if method in self.faults:
            raise self.faults[method]

    @asynccontextmanager
    async def open_remote(self, repo: RepoAddress, credential: str) -> AsyncIterator[Remote]:
        assert not credential
        self._request("open_remote", repo)
        yield self.remote

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        for repository in self.repos.values():
            yield repository

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        self._request("repository", repo)
        for remote in self.repos.values():
            if repo.external_id == remote.external_id:
                return remote
            if not repo.external_id and repo.full_name == remote.full_name:
                return remote
        raise PlatformError("Not Found", "gone")

    async def pull(self, repo: RepoAddress, number: int) -> RemotePull:
        self._request("pull", repo)
        if number not in self.pulls:
            raise PlatformError("Not Found", "gone")
        return self.pulls[number]

    async def merge_pull(
        self, repo: RepoAddress, number: int, *, method: MergeMethod, head_commit: str
    ) -> None:
        """A fault `merge_pull` refuses the merge; with `lost_merge` only the response is lost."""
        self._request("merge_pull", repo)
        assert method in self.merge_methods
        pull = self.pulls[number]
        if pull.head_commit != head_commit or pull.state != "open":
            raise PlatformError("Not mergeable", "refused")
        self.pulls[number] = msgspec.structs.replace(pull, state="merged")
        if "lost_merge" in self.faults:
            raise self.faults["lost_merge"]

    async def close_pull(self, repo: RepoAddress, number: int) -> None:
        self._request("close_pull", repo)
        self.pulls[number] = msgspec.structs.replace(self.pulls[number], state="closed")

    async def comments(
        self, repo: RepoAddress, number: int, cursor: CommentCursor
    ) -> list[Comment]:
        self._request("comments", repo)
        after = {"comment": cursor.comments, "line": cursor.lines, "review": cursor.reviews}
        newer = {kind: NewerComments(self.platform, last_id) for kind, last_id in after.items()}
        for on_number, comment in self.posted:
            newer[comment.kind].add([comment] if on_number == number else [])
        return [comment for of_kind in newer.values() for comment in of_kind.oldest_first]

    async def may_write(self, repo: RepoAddress, login: str) -> bool:
        assert repo.repo_id
        if login in self.permission_faults:
            raise self.permission_faults[login]
        self.last_author = login
        return True

    async def comment(self, repo: RepoAddress, number: int, text: str) -> None:
        assert text
        self.replies.append((repo.full_name, number, self.last_author))

    async def set_status(self, repo: RepoAddress, status: CommitStatus) -> None:
        self._request("set_status", repo)
        self.statuses.append(status)

    async def check(self) -> Account:
        self.requests["check"] += 1
        if "check" in self.faults:
            raise self.faults["check"]
        return Account("agentjobs", is_own=True, missing=self.missing)

    async def issue(self, full_name: str, number: int) -> Issue:
        raise NotImplementedError

    async def comment_on_issue(self, full_name: str, number: int, text: str) -> None:
        raise NotImplementedError

    async def open_pull_request(
        self, repo: RepoAddress, credential: str, request: PullRequestRequest
    ) -> PullRequest:
        raise NotImplementedError

    async def pull_of_branch(self, repo: RepoAddress, branch: str) -> BranchPull | None:
        assert branch
        self._request("pull_of_branch", repo)
        return self.pull_of_any_branch


@dataclass
class SyncEnvironment:
    """A service with one connection to a `FakePlatform`."""

    context: JobsContext
    platform: FakePlatform
    connection: Connection
    hook_secret: str
    loop: PlatformLoop = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    @property
    def db(self) -> Database:
        return self.context.db

    @property
    def replies(self) -> list[tuple[str, int, str]]:
        """Repository, pull request and author of each comment that was handled."""
        return self.platform.replies

    @property
    def answered_authors(self) -> list[str]:
        return [author for _, _, author in self.replies]

    def restart(self) -> None:
        """Start over, as a new process does."""
        keys = SealingKeys.load(self.context.settings)
        self.loop = PlatformLoop(self.db, PlatformSync(self.context, self, keys))

    async def adapter_for(self, connection_id: str, _: object = None, /) -> Platform:
        assert connection_id.startswith("fcn_")
        return self.platform

    async def connect(self, *names: str, **choices: Any) -> None:
        """Connect the named repositories, or all that the platform has."""
        results = await connect_repositories(
            self.db,
            cast("Platforms", self),
            ORGANIZATION,
            self.connection.name,
            names or None,
            **choices,
        )
        assert [result.problem for result in results] == [None] * len(results)

    async def update_repos(self, assignments: str, where: str = "TRUE", **parameters: Any) -> None:
        await write_repos(self.db, assignments, where, **parameters)

    async def full_sync(self) -> Row:
        """Sync everything, whether or not it is due; returns the shop's row."""
        await self.update_repos("whole_due_at = NULL", "r.external_id = :id", id=SHOP)
        return await self.sync()

    async def sync(self) -> Row:
        """Sync what hook events named, or everything if a full sync is due."""
        await self.update_repos(
            "sync_due_at = 1, sync_lease_until = NULL", "r.external_id = :id", id=SHOP
        )
        await self.execute("UPDATE platform_connections SET resting_until = NULL")
        assert await self.loop.sync_next()
        return await self.row()

    async def receive(self, delivery_id: str, event: HookEvent) -> None:
        await record_hook_delivery(self.db, self.connection.id, delivery_id, event)

    async def row(self, external_id: str = SHOP) -> Row:
        row = await self.db.fetch_one(
            f"{SELECT} WHERE r.external_id = :id AND r.disconnected_at IS NULL",
            id=external_id,
        )
        assert row is not None
        return row

    async def pull(self, number: int) -> dict[str, Any]:
        row = await self.db.fetch_one("SELECT * FROM pulls WHERE number = :number", number=number)
        assert row is not None
        return dict(row)

    async def open_pull(self, number: int, **changes: Any) -> None:
        """A pull request that a completed job opened."""
        job = await self.start_pull(number, **changes)
        await self.finish(job, number)

    async def start_pull(self, number: int, **changes: Any) -> ClaimedJob:
        """A pull request whose job has opened it and is not finished yet."""
        row = await self.row()
        request = CreateJobRequest(row["full_name"], "fixer")
        new_job = NewJob(new_id("job"), self._caller(), row["id"], request)
        await self.db.transact(insert_job, new_job)
        job = await claim_job(self.context, "wrk_a", ["fixer"])
        assert job is not None
        await start_job(self.db, job, BASE)
        await self.record_pull(number, job.branch, **changes)
        return job

    async def finish(self, job: ClaimedJob, number: int, head_commit: str = HEAD) -> None:
        draft = self.platform.pulls[number].draft
        outcome = Completed(f"https://x/{number}", number, head_commit, draft)
        assert await finish_job(self.db, job, outcome)

    async def record_pull(self, number: int, branch: str, **changes: Any) -> None:
        """A pull request on the platform and its row, without a job."""
        title, url = f"Fix {number}", f"https://x/{number}"
        remote = RemotePull(number, title, "open", False, HEAD, url)
        self.platform.pulls[number] = msgspec.structs.replace(remote, **changes)
        request = PullRequestRequest(
            head_branch=branch,
            base_branch="main",
            head_commit=HEAD,
            base_commit=BASE,
            title=title,
            body="",
        )
        pull = PullRequest(number, url, draft=self.platform.pulls[number].draft)
        await self.db.transact(record_pull, (await self.row())["id"], request, pull)

    def change_pull(self, number: int, **changes: Any) -> None:
        pulls = self.platform.pulls
        pulls[number] = msgspec.structs.replace(pulls[number], **changes)

    def post(self, number: int, comment_id: int, name: str, kind: CommentKind = "comment") -> None:
        """A comment that requests a follow-up; its author is called as the comment is, so that the
        reply shows which comment was handled."""
        comment = Comment(comment_id, name, f"@agentjobs {name}", "https://x", kind)
        self.platform.posted.append((number, comment))

    def change_repo(self, external_id: str = SHOP, **changes: Any) -> None:
        """Change a repository on the platform, or create it."""
        new = RemoteRepository(external_id, "acme/shop", "main")
        remote = self.platform.repos.get(external_id, new)
        self.platform.repos[external_id] = msgspec.structs.replace(remote, **changes)

    def copy_path(self, repo: Row) -> str:
        return str(local_repositories.path(self.context.settings.repositories_path, repo["id"]))

    async def execute(self, sql: str, **parameters: Any) -> None:
        async def run(tx: Transaction) -> None:
            await tx.execute(sql, **parameters)

        await self.db.transact(run)

    async def seconds_until_due(self) -> float:
        """To a tenth of a second: the clocks of test and database differ by milliseconds."""
        return round(((await self.row())["sync_due_at"] - now_ms()) / 1000, 1)

    async def review_requests(self) -> list[int]:
        """The pull requests for which `pr.review_requested` was sent, in this order."""
        rows = await self.db.fetch_all(
            "SELECT j.pr_number FROM events e JOIN jobs j ON j.id = e.job_id"
            " WHERE e.event = 'pr.review_requested' ORDER BY e.id"
        )
        return [row["pr_number"] for row in rows]

    def _caller(self) -> Caller:
        return Caller(
            organization_id=self.connection.organization_id,
            organization=ORGANIZATION,
            plan="enterprise",
            key_id="key_test",
            scope="jobs",
            git_write=False,
            name="test",
        )


async def sync_environment(db: Database, settings: Settings, remote: Remote) -> SyncEnvironment:
    """The platform has one repository, `acme/shop`, which is not connected yet."""
    await ensure_default(db, Plans(DEFAULT_PLANS))
    new = NewConnection(platform="gitea", credential="t0ken", url="https://git.example.org")
    added = await add_connection(db, SealingKeys.load(settings), ORGANIZATION, new)
    context = JobsContext(db, settings, Catalog([an_agent("fixer")]))
    env = SyncEnvironment(context, FakePlatform(remote), added.connection, added.hook_secret)
    env.change_repo(SHOP)
    return env
