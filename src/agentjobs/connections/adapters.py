"""Platforms as organizations connected them: an adapter for each use, its credential just opened.

Keeps nothing but the tokens that GitHub gives an app for an hour. Stores nothing.
"""

from collections.abc import Callable, Mapping
from functools import partial

import aiohttp

from agentjobs.connections.connections import open_credential
from agentjobs.forges.connection import Connection
from agentjobs.forges.git_transport import GitTransport
from agentjobs.forges.gitea.adapter import Gitea
from agentjobs.forges.github.adapter import GitHub
from agentjobs.forges.github.app import TokenCache
from agentjobs.forges.gitlab.adapter import GitLab
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import ForgeError, Platform
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.problems import Problem
from agentjobs.store.database import Database

RETRY_SECONDS = 60.0

NewPlatform = Callable[
    [Connection, str, aiohttp.ClientSession, GitTransport, RetryBudget], Platform
]


class Platforms:
    """One for a process. `adapters` by the platform's name; None: those this service has."""

    def __init__(
        self,
        db: Database,
        keys: SealingKeys,
        session: aiohttp.ClientSession,
        git_transport: GitTransport,
        adapters: Mapping[str, NewPlatform] | None = None,
    ) -> None:
        self._db = db
        self._keys = keys
        self._session = session
        self._git_transport = git_transport
        self._adapters = _adapters() if adapters is None else adapters

    async def adapter_for(
        self, connection_id: str, retry_budget: RetryBudget | None = None
    ) -> Platform:
        """For one piece of work. Raises ForgeError when it was removed, or is locked here."""
        try:
            connection, credential = await open_credential(self._db, self._keys, connection_id)
        except Problem as problem:
            is_gone = problem.code == "forge_not_found"
            raise ForgeError(problem.message, "gone" if is_gone else "refused") from None
        return await self.with_credential(connection, credential, retry_budget)

    async def with_credential(
        self, connection: Connection, credential: str, retry_budget: RetryBudget | None = None
    ) -> Platform:
        """One that need not be stored yet. Raises ForgeError for a way that may not be taken."""
        await self._git_transport.refuse_open_http(connection.url)
        new_platform = self._adapters[connection.platform]
        return new_platform(
            connection,
            credential,
            self._session,
            self._git_transport,
            retry_budget or RetryBudget(RETRY_SECONDS),
        )


def _adapters() -> dict[str, NewPlatform]:
    return {"github": partial(GitHub, tokens=TokenCache()), "gitlab": GitLab, "gitea": Gitea}
