"""Access to platforms for commands, through the outbound guard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentjobs.cli.output import print_note

if TYPE_CHECKING:
    from agentjobs.connections.adapters import Platforms
    from agentjobs.platforms.http.client import RetryBudget
    from agentjobs.store.database import Database
    from agentjobs_runtime.settings import Settings

# A person is waiting.
_RETRY_SECONDS = 30.0


@asynccontextmanager
async def open_platforms(db: "Database", settings: "Settings") -> "AsyncIterator[Platforms]":
    from agentjobs.app.outbound_setup import build_platforms, open_session, prepare_certificates

    async with open_session(settings) as session:
        yield build_platforms(db, settings, session, prepare_certificates(settings))


def interactive_retries() -> "RetryBudget":
    from agentjobs.platforms.http.client import RetryBudget

    return RetryBudget(_RETRY_SECONDS, print_note)
