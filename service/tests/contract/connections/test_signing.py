"""Signing of commits per connection, on both stores: sealed keys, registration, hints."""

from pathlib import Path

import aiohttp
import pytest

from agentjobs.connections.commits import describe_commits
from agentjobs.connections.connections import (
    NewConnection,
    find_connection,
    remove_connection,
)
from agentjobs.connections.signing import open_signing_key, register_key, set_signing, sign_token
from agentjobs.connections.verify import check_connection, verify_and_add
from agentjobs.organizations.organizations import create_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.connection import Connection
from agentjobs.platforms.protocol import Account, PlatformError
from agentjobs.store.database import Database
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.signing import SigningKey, fingerprint
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from service.tests.contract.connections.test_connections import a_token, sealing_keys
from tests.support.memory_platform import MemoryRepositories

BOT = Identity("Bot", "bot@example.org")


@pytest.fixture
def keys(tmp_path: Path) -> SealingKeys:
    return sealing_keys(tmp_path)


@pytest.fixture
def table() -> MemoryRepositories:
    return MemoryRepositories(account=Account("agentjobs-bot", is_own=True, identity=BOT))


async def connect(
    db: Database, keys: SealingKeys, table: MemoryRepositories, new: NewConnection | None = None
) -> Connection:
    await create_organization(db, Plans(DEFAULT_PLANS), "acme", "free")
    async with aiohttp.ClientSession() as session:
        platforms = table.platforms(db, keys, session)
        return (
            await verify_and_add(db, keys, platforms, "acme", new or a_token("gitea", url=URL))
        ).added.connection


URL = "https://git.example.org"


async def test_a_connection_stores_whom_its_commits_name_and_a_check_refreshes_it(
    database: Database, keys: SealingKeys, table: MemoryRepositories, tmp_path: Path
) -> None:
    connection = await connect(database, keys, table)
    assert connection.identity == BOT
    async with aiohttp.ClientSession() as session:
        platforms = table.platforms(database, keys, session)
        renamed = Identity("Robot", "robot@example.org")
        table.account = Account("robot", is_own=True, identity=renamed)
        await check_connection(database, platforms, connection.id)
        assert (await find_connection(database, "acme", "gitea")).identity == renamed
        # A platform that does not tell leaves what is known.
        table.account = Account("robot", is_own=True)
        await check_connection(database, platforms, connection.id)
    stored = await find_connection(database, "acme", "gitea")
    assert (stored.account, stored.identity) == ("robot", renamed)
    own = Settings(data_dir=str(tmp_path), author_email="jobs@acme.example")
    assert "Robot <jobs@acme.example> and not signed" in describe_commits(own, stored)


async def test_a_signing_key_is_sealed_kept_replaced_and_deleted(
    database: Database, keys: SealingKeys, table: MemoryRepositories, tmp_path: Path
) -> None:
    connection = await connect(database, keys, table)
    assert await open_signing_key(database, keys, connection.id) is None
    signing = await set_signing(database, keys, "acme", "gitea", "ssh")
    key = await open_signing_key(database, keys, connection.id)
    assert key is not None
    assert key.public_text == signing.signing_public_key
    assert (await find_connection(database, "acme", "gitea")) == signing
    settings = Settings(data_dir=str(tmp_path))
    assert fingerprint(key.public_text) in describe_commits(settings, signing)
    rows = await database.fetch_all("SELECT * FROM platform_connections")
    assert key.private_text.splitlines()[2].encode() not in b"|".join(
        bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
        for value in dict(rows[0]).values()
    )

    again = await set_signing(database, keys, "acme", "gitea", "ssh")
    assert again.signing_public_key == signing.signing_public_key
    new = await set_signing(database, keys, "acme", "gitea", "ssh", is_new_key=True)
    assert new.signing_public_key != signing.signing_public_key
    own = SigningKey.generate()
    given = await set_signing(database, keys, "acme", "gitea", "ssh", private_key=own.private_text)
    assert given.signing_public_key == own.public_text
    signature = await sign_token(database, keys, "acme", "gitea", "0123")
    assert signature == own.sign(b"0123", "gitea")

    off = await set_signing(database, keys, "acme", "gitea", "none")
    assert (off.signing, off.signing_public_key) == ("none", None)
    assert await open_signing_key(database, keys, connection.id) is None
    await set_signing(database, keys, "acme", "gitea", "ssh")
    await remove_connection(database, "acme", "gitea")
    (row,) = await database.fetch_all("SELECT signing, signing_sealed FROM platform_connections")
    assert (row["signing"], row["signing_sealed"]) == ("none", None)


async def test_a_key_is_registered_or_the_hint_says_where_to_add_it(
    database: Database, keys: SealingKeys, table: MemoryRepositories
) -> None:
    await connect(database, keys, table)
    connection = await set_signing(database, keys, "acme", "gitea", "ssh")
    async with aiohttp.ClientSession() as session:
        platforms = table.platforms(database, keys, session)
        change = await register_key(platforms, connection)
        assert (change.is_registered, table.signing_keys) == (True, [connection.signing_public_key])
        # Gitea verifies signatures only with keys that the account has proven to have.
        assert "agentjobs platforms sign-token gitea TOKEN" in change.hint
        table.key_fault = PlatformError("It needs write:user.", "denied")
        refused = await register_key(platforms, connection)
    assert not refused.is_registered
    assert "It needs write:user. Add it at https://git.example.org/user/settings" in refused.hint


async def test_a_mode_that_the_platform_could_not_verify_is_refused(
    database: Database, keys: SealingKeys, table: MemoryRepositories
) -> None:
    await connect(database, keys, table)
    for mode, private_key, text in (
        ("gpg", "", "use one of none, ssh, platform"),
        ("platform", "", "only those of an App"),
        ("ssh", "no key", "must be an SSH key"),
    ):
        with pytest.raises(Problem, match=text) as caught:
            await set_signing(database, keys, "acme", "gitea", mode, private_key=private_key)
        assert caught.value.code == "invalid_signing"
    with pytest.raises(Problem, match="has no signing key"):
        await sign_token(database, keys, "acme", "gitea", "0123")
