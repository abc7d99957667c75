"""A platform with repositories in memory, for tests of connections."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp

from agentjobs.connections.adapters import NewPlatform, Platforms
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.protocol import (
    Account,
    Platform,
    PlatformError,
    RemoteRepository,
    RepoAddress,
)
from agentjobs.store.database import Database
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.outbound.guard.addresses import AllowList


@dataclass
class MemoryRepositories:
    """`accepted` are the valid credentials; `fault` makes every request fail, and
    `key_fault` only that of a signing key."""

    available: list[RemoteRepository] = field(default_factory=list)
    accepted: set[str] = field(default_factory=lambda: {"good-token"})
    account: Account = field(default_factory=lambda: Account("agentjobs-bot", is_own=True))
    fault: PlatformError | None = None
    signing_keys: list[str] = field(default_factory=list)
    key_fault: PlatformError | None = None
    requests: list[str] = field(default_factory=list)

    def adapter(self, connection: Connection, credential: str, *_: object) -> Platform:
        return MemoryPlatform(self, connection.platform, credential)

    def platforms(
        self, db: Database, keys: SealingKeys, session: aiohttp.ClientSession
    ) -> Platforms:
        adapters: dict[str, NewPlatform] = dict.fromkeys(
            ("github", "gitlab", "gitea"), self.adapter
        )
        return Platforms(db, keys, session, GitTransport(AllowList()), adapters)


class MemoryPlatform(Platform):
    platform = ""

    def __init__(self, table: MemoryRepositories, platform: str, credential: str) -> None:
        self.platform = platform
        self._table = table
        self._credential = credential

    async def check(self) -> Account:
        self._request("check")
        return self._table.account

    async def repositories(self) -> AsyncIterator[RemoteRepository]:
        self._request("repositories")
        for repository in self._table.available:
            yield repository

    async def repository(self, repo: RepoAddress) -> RemoteRepository:
        self._request(f"repository {repo.full_name}")
        for repository in self._table.available:
            key = repo.external_id or repo.full_name.lower()
            if key in (repository.external_id, repository.full_name.lower()):
                return repository
        raise PlatformError(f"There is no repository {repo.full_name}.", "gone")

    async def find_identity(self, login: str) -> Identity | None:
        self._request(f"find_identity {login}")
        return Identity(login, f"{login}@users.example.org")

    async def register_signing_key(self, title: str, public_key: str) -> None:
        self._request(f"register {title}")
        if self._table.key_fault is not None:
            raise self._table.key_fault
        self._table.signing_keys.append(public_key)

    def _request(self, operation: str) -> None:
        self._table.requests.append(operation)
        if self._table.fault is not None:
            raise self._table.fault
        if self._credential not in self._table.accepted:
            raise PlatformError("Bad credentials.", "unauthorized")
