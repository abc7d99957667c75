"""Creates an adapter for a connection each time one is used, with the credential it has now.

Shared by all adapters of this process: the installation tokens that GitHub issues for an hour, and
what is known of a connection's rate limit and responses.
"""

from collections.abc import Callable, Mapping
from functools import partial

import aiohttp

from agentjobs.connections.connections import open_credential
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.git_transport import GitTransport
from agentjobs.platforms.gitea.adapter import Gitea
from agentjobs.platforms.github.adapter import GitHub
from agentjobs.platforms.github.app import TokenCache
from agentjobs.platforms.gitlab.adapter import GitLab
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.http.traffic import TrafficRegistry
from agentjobs.platforms.protocol import Platform, PlatformError
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem

RETRY_SECONDS = 60.0

NewPlatform = Callable[
    [Connection, str, aiohttp.ClientSession, GitTransport, RetryBudget], Platform
]


class Platforms:
    """One per process. `adapters` are keyed by platform; None means the built-in ones."""

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
        """An adapter for one operation. Raises PlatformError if the connection was removed or its
        credential cannot be decrypted."""
        try:
            connection, credential = await open_credential(self._db, self._keys, connection_id)
        except Problem as problem:
            is_gone = problem.code == "forge_not_found"
            raise PlatformError(problem.message, "gone" if is_gone else "unusable") from None
        return await self.with_credential(connection, credential, retry_budget)

    async def with_credential(
        self, connection: Connection, credential: str, retry_budget: RetryBudget | None = None
    ) -> Platform:
        """The adapter of a connection, stored or not. Raises PlatformError for plain HTTP."""
        await self._git_transport.refuse_plain_http(connection.url)
        new_platform = self._adapters[connection.platform]
        return new_platform(
            connection,
            credential,
            self._session,
            self._git_transport,
            retry_budget or RetryBudget(RETRY_SECONDS),
        )


def _adapters() -> dict[str, NewPlatform]:
    traffic = TrafficRegistry()
    return {
        "github": partial(GitHub, tokens=TokenCache(), traffic=traffic),
        "gitlab": partial(GitLab, traffic=traffic),
        "gitea": partial(Gitea, traffic=traffic),
    }
