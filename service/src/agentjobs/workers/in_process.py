"""The connection of a worker that runs in the service's process."""

import contextlib
from collections.abc import AsyncIterator
from typing import TypeVar

from agentjobs.store.changes import Changes
from agentjobs.store.opening import open_unchecked
from agentjobs.workers.handlers import answer
from agentjobs.workers.session import WorkerSession
from agentjobs_runtime.protocol.messages import Request

T = TypeVar("T")


class InProcessLink:
    def __init__(self, session: WorkerSession) -> None:
        self._session = session

    @property
    def changes(self) -> Changes:
        return self._session.db.changes

    async def call(self, request: Request[T]) -> T:
        return await answer(self._session, request)

    @contextlib.asynccontextmanager
    async def open_another(self) -> AsyncIterator["InProcessLink"]:
        """It connects when it is used, and closes its connection when it was idle for a while."""
        settings = self._session.settings
        db = await open_unchecked(
            settings.effective_database_url,
            listen=False,
            direct_url=settings.database_direct_url,
            pool_size=1,
            generic_plans=True,
        )
        try:
            yield InProcessLink(self._session.with_database(db))
        finally:
            await db.close()
