"""What commands about connections work with: the organization's platforms, reached by the guard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentjobs.cli.output import remark

if TYPE_CHECKING:
    from agentjobs.connections.adapters import Platforms
    from agentjobs.forges.http.client import RetryBudget
    from agentjobs.settings import Settings
    from agentjobs.store.database import Database

# Somebody sits there and waits.
_PATIENCE_SECONDS = 30.0


@asynccontextmanager
async def open_platforms(db: "Database", settings: "Settings") -> "AsyncIterator[Platforms]":
    from agentjobs.app.outbound_setup import certificates_of, platforms_of, session_of

    async with session_of(settings) as session:
        yield platforms_of(db, settings, session, certificates_of(settings))


def persons_patience() -> "RetryBudget":
    from agentjobs.forges.http.client import RetryBudget

    return RetryBudget(_PATIENCE_SECONDS, remark)
