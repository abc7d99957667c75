"""What the adapters of all platforms share: a connection, its API, its git remotes.

An adapter serves one operation with the credential that the connection has now.
"""

import abc
import contextlib
from collections.abc import AsyncIterator
from typing import Any, ClassVar, TypeVar

import aiohttp
import msgspec

from agentjobs.platforms.connection import Connection
from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.http.client import Headers, PlatformApi, RetryBudget, build_path
from agentjobs.platforms.http.traffic import TrafficRegistry
from agentjobs.platforms.protocol import (
    STATUS_NAME,
    CommitStatus,
    PlatformError,
    RemoteRepository,
    RepoAddress,
)
from agentjobs.platforms.validate import validate
from agentjobs_runtime.git.remote import Remote

# Long enough for the next step of a sync; a job that pushes later asks again.
_MAX_AGE_SECONDS = 10.0
Value = TypeVar("Value", bound=msgspec.Struct)


class _Key(msgspec.Struct, frozen=True):
    key: str


class GitAccess(msgspec.Struct, frozen=True):
    """`authorization` is the value of git's header; `is_fresh`: it may not be accepted yet."""

    authorization: str
    is_fresh: bool = False


class Adapter(abc.ABC):
    """`title` is how messages name the platform."""

    title: ClassVar[str]

    def __init__(
        self,
        connection: Connection,
        credential: str,
        session: aiohttp.ClientSession,
        git_transport: GitTransport,
        retry_budget: RetryBudget,
        traffic: TrafficRegistry | None = None,
    ) -> None:
        self.connection = connection
        self.credential = credential
        self.url = connection.url.rstrip("/")
        self.retry_budget = retry_budget
        self.traffic = (traffic or TrafficRegistry()).of(connection.id, credential)
        self._session = session
        self._git_transport = git_transport
        self._latest: tuple[float, RemoteRepository] | None = None

    @abc.abstractmethod
    async def read_repository(self, repo: RepoAddress) -> RemoteRepository:
        """Raises PlatformError."""

    @abc.abstractmethod
    async def git_access(self, repo: RepoAddress) -> GitAccess:
        """Raises PlatformError."""

    @contextlib.asynccontextmanager
    async def open_remote(self, repo: RepoAddress, credential: str) -> AsyncIterator[Remote]:  # noqa: ARG002 - the connection's credential is used
        # The name may belong to another repository by now, and a cached token may be revoked; git
        # would notice neither.
        current = await self.current(repo)
        access = await self.git_access(repo)
        url = f"{self.url}{build_path(*current.full_name.split('/'))}.git"
        async with self._git_transport.connect(
            url, access.authorization, is_fresh=access.is_fresh
        ) as remote:
            yield remote

    def new_api(self, base_url: str, headers: Headers, **options: Any) -> PlatformApi:
        """`options` are those of PlatformApi, in place of what the connection shares."""
        shared: dict[str, Any] = {"retry_budget": self.retry_budget, "traffic": self.traffic}
        return PlatformApi(
            self._session, base_url, platform=self.title, headers=headers, **(shared | options)
        )

    def validate(self, value: Value) -> Value:
        """A value that the platform returned and that can be stored. Raises PlatformError."""
        return validate(self.title, value)

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        remote = await self.read_repository(repo)
        self._latest = (self.retry_budget.time_of_day(), remote)
        return remote

    async def current(self, repo: RepoAddress) -> RemoteRepository:
        """The repository as the platform returned it a moment ago, or returns it now."""
        if self._latest is not None and repo.external_id == self._latest[1].external_id:
            age = self.retry_budget.time_of_day() - self._latest[0]
            if 0 <= age <= _MAX_AGE_SECONDS:
                return self._latest[1]
        return await self.repository(repo)


def commit_status(status: CommitStatus, max_characters: int | None = None) -> dict[str, str]:
    """The request for a commit status on GitHub and Gitea."""
    return {
        # It cannot be neutral, and one that is missing would block the pull request.
        "state": "success" if status.state == "neutral" else status.state,
        "context": STATUS_NAME,
        "description": status.description[:max_characters],
        "target_url": status.url,
    }


async def register_signing_key(
    api: PlatformApi, path: str, body: dict[str, Any], *, needs: str
) -> None:
    """Add the public key `body["key"]` to the account's keys at `path`, once."""
    wanted = _without_comment(body["key"])
    try:
        async for key in api.items(_Key, path, needs=needs):
            if _without_comment(key.key) == wanted:
                return
        await api.post(path, body, needs=needs)
    except PlatformError as error:
        if error.fault != "gone":
            raise
        # GitHub answers a classic token that lacks the scope as if there were no keys.
        reason = (
            f"The connection needs the permission {needs} to add a key. GitHub Enterprise Server"
            " older than 3.7 has no keys for signatures."
        )
        raise PlatformError(reason, "denied") from None


def _without_comment(public_key: str) -> list[str]:
    return public_key.split()[:2]
