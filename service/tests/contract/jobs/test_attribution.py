"""Whom the commit of a job names, on both stores: the account, the operator, who asked."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import NewConnection, find_connection, record_check
from agentjobs.connections.signing import set_signing
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.users import ADMINISTRATOR
from agentjobs.platforms.protocol import Account, PlatformError
from agentjobs.publishing.attribution import load_attribution
from agentjobs.store.database import Database
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.protocol.outcomes import JobFailed
from agentjobs_runtime.settings import Settings
from service.tests.contract.connections.test_connections import TOKEN, sealing_keys
from tests.support.added_connections import add_connection
from tests.support.memory_platform import MemoryRepositories
from tests.support.run_fields import RunFields
from tests.support.users import member, organization

BOT = Identity("Bot", "bot@example.org")
SERVICE = Identity("agentjobs", "agentjobs@localhost")


class Runs:
    """Runs of jobs of one organization, with a connection that was never checked."""

    def __init__(self, db: Database, keys: SealingKeys, platforms: Platforms) -> None:
        self.db = db
        self.keys = keys
        self.platforms = platforms
        self.organization_id = ""
        self.connection_id = ""

    async def connect(self) -> None:
        self.organization_id = await organization(self.db, "acme")
        new = NewConnection(platform="gitea", credential=TOKEN, url="https://git.example.org")
        self.connection_id = (await add_connection(self.db, self.keys, "acme", new)).connection.id
        account = Account("bot", is_own=True, identity=BOT)
        await record_check(self.db, self.connection_id, account=account)

    async def attribution(
        self, created_by: str = "key_1", *, is_local: bool = False, **settings: Any
    ) -> Any:
        run: Any = RunFields(
            db=self.db,
            settings=Settings(data_dir="/nowhere", **settings),
            log=SimpleNamespace(note=lambda _: None),
            tools=SimpleNamespace(platforms=self.platforms, keys=self.keys),
            job=SimpleNamespace(
                connection_id=None if is_local else self.connection_id,
                platform="local" if is_local else "gitea",
                organization_id=self.organization_id,
                created_by=created_by,
            ),
        )
        return await load_attribution(run)


@pytest.fixture
def table() -> MemoryRepositories:
    return MemoryRepositories()


@pytest.fixture
async def runs(
    database: Database, table: MemoryRepositories, tmp_path: Path
) -> AsyncIterator[Runs]:
    keys = sealing_keys(tmp_path)
    async with aiohttp.ClientSession() as session:
        runs = Runs(database, keys, table.platforms(database, keys, session))
        await runs.connect()
        yield runs


async def test_commits_name_the_account_of_the_connection(runs: Runs) -> None:
    attribution = await runs.attribution()
    assert (attribution.author, attribution.committer) == (BOT, BOT)
    assert (attribution.co_author, attribution.signing_key) == (None, None)


async def test_what_the_operator_sets_wins_and_local_repositories_have_the_services_name(
    runs: Runs, table: MemoryRepositories
) -> None:
    own = await runs.attribution(author_email="jobs@acme.example", committer_name="Acme CI")
    assert own.author == Identity("Bot", "jobs@acme.example")
    assert own.committer == Identity("Acme CI", "jobs@acme.example")
    local = await runs.attribution(is_local=True)
    assert (local.author, local.committer, local.signing_key) == (SERVICE, SERVICE, None)


async def test_a_platform_that_cannot_be_asked_does_not_stop_a_job(
    runs: Runs, table: MemoryRepositories
) -> None:
    table.fault = PlatformError("HTTP 503", "away")
    attribution = await runs.attribution("gitea:ada")
    assert (attribution.author, attribution.co_author) == (BOT, None)
    # Nor is the connection marked: a sync decides whether the platform is away.
    assert (await find_connection(runs.db, "acme", "gitea")).error is None


async def test_the_person_who_asked_is_a_co_author(runs: Runs, table: MemoryRepositories) -> None:
    asked = await runs.attribution("gitea:ada")
    assert asked.co_author == Identity("ada", "ada@users.example.org")
    # A login of another platform may be another person's here.
    assert (await runs.attribution("github:ada")).co_author is None

    grace = await member(runs.db, runs.organization_id, "grace@example.org")
    by_member = await runs.attribution(grace.id)
    assert by_member.co_author == Identity("grace", "grace@example.org")
    stranger = await member(runs.db, await organization(runs.db, "other"), "eve@example.org")
    administrator = await member(runs.db, runs.organization_id, ADMINISTRATOR, "admin")
    for created_by in (stranger.id, administrator.id, "key_1", ""):
        assert (await runs.attribution(created_by)).co_author is None

    # Nobody is the co-author of a commit of their own.
    own = await runs.attribution(grace.id, author_email="GRACE@example.org")
    assert own.co_author is None


async def test_the_signing_key_of_the_connection_is_used(runs: Runs, tmp_path: Path) -> None:
    connection = await set_signing(runs.db, runs.keys, "acme", "gitea", "ssh")
    key = (await runs.attribution()).signing_key
    assert key.public_text == connection.signing_public_key
    runs.keys = sealing_keys(tmp_path / "other", b"o")
    with pytest.raises(JobFailed, match="signing key of gitea"):
        await runs.attribution()
