"""Sample platform connections and trackers, with in-memory doubles."""

from typing import cast

import aiohttp
import pytest

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection
from agentjobs.organizations.authentication import Caller
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.protocol import PlatformError, RemoteRepository
from agentjobs.tickets import verify
from agentjobs.tickets.trackers import NewTracker, add_tracker
from service.tests.unit.web.dashboard.repository import TextMaker
from tests.support.added_connections import add_connection
from tests.support.jobs import JobHarness
from tests.support.memory_platform import MemoryRepositories
from tests.support.users import write

ACCEPTED = "good-token"
SEEN = "acme/app"


def table_of() -> MemoryRepositories:
    return MemoryRepositories([RemoteRepository("71", SEEN, "main")])


def platforms_of(harness: JobHarness, table: MemoryRepositories | None = None) -> Platforms:
    # The double sends no requests and needs no session.
    nothing = cast("aiohttp.ClientSession", None)
    keys = SealingKeys.load(harness.context.settings)
    return (table or table_of()).platforms(harness.db, keys, nothing)


async def insert_platform(
    harness: JobHarness, caller: Caller, keys: SealingKeys, make_text: TextMaker
) -> dict[str, str]:
    """A connection and a tracker with untrusted text in every field that allows it."""
    name = caller.organization
    new = NewConnection(platform="gitea", credential=ACCEPTED, url="https://git.example.org")
    connection = (await add_connection(harness.db, keys, name, new)).connection
    await write(
        harness.db,
        "UPDATE platform_connections SET account = :account, error = :error,"
        " commit_name = :commit_name, commit_email = 'bot@example.org' WHERE id = :id",
        id=connection.id,
        account=make_text("agentjobs-bot"),
        error=make_text("The token has expired"),
        commit_name=make_text("Agent Bot"),
    )
    jira = NewTracker(kind="jira", url="https://jira.example.com", token=ACCEPTED)
    tracker = await add_tracker(harness.db, keys, name, jira)
    await write(
        harness.db,
        "UPDATE trackers SET error = :error WHERE id = :id",
        id=tracker.id,
        error=make_text("Jira is closed"),
    )
    return {"connection": connection.id, "tracker": tracker.id}


class JiraDouble:
    """Implements only the check of a token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def check(self) -> str:
        if self._token != ACCEPTED:
            raise PlatformError("Jira does not accept the token.", "unauthorized")
        return "Agent Jobs"


def use_jira_double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the Jira client; its requests are tested in tests/integration/tickets."""
    monkeypatch.setattr(verify, "jira_tracker", lambda _tracker, token, *_: JiraDouble(token))
