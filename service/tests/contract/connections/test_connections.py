"""Connections to platforms, on both stores: encrypted, private to an organization, verified."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agentjobs.connections.adapters import Platforms
from agentjobs.connections.connections import (
    NewConnection,
    find_connection,
    list_all_connections,
    list_connections,
    open_credential,
    open_hook_secret,
    record_check,
    remove_connection,
    replace_credential,
    rotate_hook_secret,
)
from agentjobs.connections.rows import count_repositories
from agentjobs.connections.verify import check_connection, verify_and_add, verify_and_replace
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.organizations import create_organization, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.platforms.protocol import Account, PlatformError
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import new_id
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.added_connections import add_connection
from tests.support.memory_platform import MemoryRepositories
from tests.support.repo_rows import SELECT, update_repos

TOKEN = "good-token"


def sealing_keys(directory: Path, letter: bytes = b"k") -> SealingKeys:
    return SealingKeys([base64.b64encode(letter * 32).decode()], directory / "encryption.key")


@pytest.fixture
def keys(tmp_path: Path) -> SealingKeys:
    return sealing_keys(tmp_path)


@pytest.fixture
async def acme(database: Database) -> str:
    for name in ("acme", "other"):
        await create_organization(database, Plans(DEFAULT_PLANS), name, "free")
    return (await find_organization(database, "acme")).id


@pytest.fixture
def table() -> MemoryRepositories:
    return MemoryRepositories()


@pytest.fixture
async def platforms(
    database: Database, keys: SealingKeys, table: MemoryRepositories
) -> AsyncIterator[Platforms]:
    async with aiohttp.ClientSession() as session:
        yield table.platforms(database, keys, session)


def a_token(platform: str = "github", **fields: Any) -> NewConnection:
    return NewConnection(platform=platform, credential=TOKEN, **fields)


async def code_of(operation: Any) -> str:
    with pytest.raises(Problem) as problem:
        await operation
    return problem.value.code


async def test_a_credential_is_encrypted_and_opens_only_for_its_connection(
    database: Database, keys: SealingKeys, acme: str, tmp_path: Path
) -> None:
    connection, hook_secret = await add_connection(database, keys, "acme", a_token())
    assert (connection.name, connection.url) == ("github", "https://github.com")
    assert (connection.kind, connection.account, connection.organization_id) == (
        ("token", None, acme)
    )
    assert await open_credential(database, keys, connection.id) == (connection, TOKEN)
    assert await open_hook_secret(database, keys, connection.id) == (connection, hook_secret)
    assert len(hook_secret) == 64
    for name in ("platform_connections", "audit_log"):
        for row in await database.fetch_all(f"SELECT * FROM {name}"):
            stored = b"|".join(
                bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
                for value in dict(row).values()
            )
            assert TOKEN.encode() not in stored
            assert hook_secret.encode() not in stored
    assert TOKEN not in repr(connection)

    # Neither another key nor another row opens it, and the two secrets are not interchangeable.
    assert await code_of(
        open_credential(database, sealing_keys(tmp_path / "x", b"o"), connection.id)
    ) == ("sealing_key_missing")
    second, _ = await add_connection(database, keys, "acme", a_token())
    await database.transact(_move_secrets, connection.id, second.id)
    assert await code_of(open_credential(database, keys, second.id)) == "sealed_value_damaged"
    await database.transact(_swap_secrets, connection.id)
    assert await code_of(open_credential(database, keys, connection.id)) == "sealed_value_damaged"


async def test_another_organization_finds_nothing_and_may_use_the_same_name(
    database: Database, keys: SealingKeys, acme: str
) -> None:
    connection, _ = await add_connection(database, keys, "acme", a_token())
    for name in (connection.name, connection.id):
        assert await find_connection(database, "acme", name) == connection
        for verb in (
            find_connection(database, "other", name),
            replace_credential(database, keys, "other", name, "new"),
            rotate_hook_secret(database, keys, "other", name),
            remove_connection(database, "other", name),
        ):
            assert await code_of(verb) == "forge_not_found"
    assert await list_connections(database, "other") == []
    other_connection, _ = await add_connection(database, keys, "other", a_token())
    assert other_connection.name == connection.name
    assert await find_connection(database, "other", other_connection.name) == other_connection
    assert {connection.id for connection in await list_all_connections(database)} == {
        connection.id,
        other_connection.id,
    }


async def test_default_names_are_numbered_and_unique_until_removed(
    database: Database, keys: SealingKeys, acme: str
) -> None:
    first, _ = await add_connection(database, keys, "acme", a_token())
    second, _ = await add_connection(database, keys, "acme", a_token())
    named, _ = await add_connection(database, keys, "acme", a_token(name="work"))
    gitea, _ = await add_connection(
        database, keys, "acme", a_token("gitea", url="https://codeberg.org/")
    )
    names = [first.name, second.name, named.name, gitea.name]
    assert names == ["github", "github-2", "work", "gitea"]
    assert await code_of(add_connection(database, keys, "acme", a_token(name="work"))) == (
        "name_taken"
    )
    await remove_connection(database, "acme", "github")
    again, _ = await add_connection(database, keys, "acme", a_token())
    assert (again.name, again.id != first.id) == ("github", True)
    assert [connection.name for connection in await list_connections(database, "acme")] == [
        *("gitea", "github", "github-2", "work")
    ]


async def test_a_new_credential_replaces_the_old_one_and_failed_syncs_are_retried(
    database: Database, keys: SealingKeys, acme: str
) -> None:
    connection, hook_secret = await add_connection(database, keys, "acme", a_token())
    await record_check(database, connection.id, account=Account("bot", is_own=True))
    await record_check(database, connection.id, error="Bad credentials.")
    stored = await find_connection(database, "acme", "github")
    assert (stored.account, stored.error) == ("bot", "Bad credentials.")
    far = now_ms() + 3_600_000
    failing = await database.transact(_insert_repo, acme, connection.id, 1, far, "Bad credentials.")
    fine = await database.transact(_insert_repo, acme, connection.id, 2, far, None)
    replaced = await replace_credential(database, keys, "acme", "github", "newer-token")
    assert (replaced.error, replaced.account) == (None, "bot")
    assert (await open_credential(database, keys, connection.id))[1] == "newer-token"
    due = {row["id"]: row["sync_due_at"] for row in await database.fetch_all(SELECT)}
    assert (due[failing] < far, due[fine] == far) == (True, True)

    rotated = await rotate_hook_secret(database, keys, "acme", "github")
    assert rotated != hook_secret
    opened = await open_hook_secret(database, keys, connection.id)
    assert opened is not None
    assert opened[1] == rotated
    assert (await open_credential(database, keys, connection.id))[1] == "newer-token"
    for bad in ("", "two words"):
        assert await code_of(replace_credential(database, keys, "acme", "github", bad)) == (
            "invalid_credential"
        )


async def test_a_connection_in_use_is_not_removed_and_a_removed_one_keeps_no_secret(
    database: Database, keys: SealingKeys, acme: str
) -> None:
    connection, _ = await add_connection(database, keys, "acme", a_token())
    for number in (1, 2):
        await database.transact(_insert_repo, acme, connection.id, number, 1, None)
    assert await count_repositories(database, connection.id) == 2
    with pytest.raises(Problem, match="2 repositories are connected") as in_use:
        await remove_connection(database, "acme", "github")
    assert in_use.value.code == "forge_in_use"
    assert await find_connection(database, "acme", "github") == connection
    await database.transact(_disconnect_all)
    await remove_connection(database, "acme", "github")
    for operation in (
        find_connection(database, "acme", "github"),
        find_connection(database, "acme", connection.id),
        open_credential(database, keys, connection.id),
        remove_connection(database, "acme", "github"),
    ):
        assert await code_of(operation) == "forge_not_found"
    assert await open_hook_secret(database, keys, connection.id) is None
    (row,) = await database.fetch_all(
        "SELECT sealed, hook_sealed, key_id FROM platform_connections"
    )
    assert (bytes(row["sealed"]), bytes(row["hook_sealed"]), row["key_id"]) == (b"", b"", "")
    entries = await list_entries(database, acme, AuditFilter(), limit=9)
    assert [(entry.action, entry.target) for entry in entries][:2] == [
        ("forge.removed", "github"),
        ("forge.connected", "github"),
    ]


async def test_a_credential_is_stored_only_if_its_platform_accepts_it(
    database: Database,
    keys: SealingKeys,
    acme: str,
    platforms: Platforms,
    table: MemoryRepositories,
) -> None:
    bad = NewConnection(platform="gitlab", credential="bad-token")
    assert await code_of(verify_and_add(database, keys, platforms, "acme", bad)) == (
        "forge_unauthorized"
    )
    open_http = a_token("gitea", url="http://10.0.0.1:3000")
    with pytest.raises(Problem, match="AGENTJOBS_EGRESS_ALLOW"):
        await verify_and_add(database, keys, platforms, "acme", open_http)
    table.fault = PlatformError("busy", "away")
    assert await code_of(verify_and_add(database, keys, platforms, "acme", a_token())) == (
        "forge_unavailable"
    )
    assert await list_connections(database, "acme") == []

    table.fault, table.account = None, Account("bot", is_own=True, missing=("Contents: read",))
    (connection, _), account = await verify_and_add(database, keys, platforms, "acme", a_token())
    assert (account.missing, connection.account) == (("Contents: read",), "bot")
    assert await find_connection(database, "acme", "github") == connection
    assert connection.checked_at is not None

    table.accepted = {"newer-token"}
    operation = verify_and_replace(database, keys, platforms, "acme", "github", "worse-token")
    assert await code_of(operation) == "forge_unauthorized"
    assert (await open_credential(database, keys, connection.id))[1] == TOKEN
    assert await code_of(check_connection(database, platforms, connection.id)) == (
        "forge_unauthorized"
    )
    assert (await find_connection(database, "acme", "github")).error == "Bad credentials."
    replaced, _ = await verify_and_replace(
        database, keys, platforms, "acme", "github", "newer-token"
    )
    assert (replaced.error, replaced.account) == (None, "bot")
    assert await check_connection(database, platforms, connection.id) == account


async def test_a_removed_or_locked_connection_has_no_adapter(
    database: Database, keys: SealingKeys, acme: str, table: MemoryRepositories, tmp_path: Path
) -> None:
    connection, _ = await add_connection(database, keys, "acme", a_token())
    async with aiohttp.ClientSession() as session:
        other_keys = sealing_keys(tmp_path / "x", b"o")
        with pytest.raises(PlatformError, match="github cannot be decrypted") as locked:
            await table.platforms(database, other_keys, session).adapter_for(connection.id)
        await remove_connection(database, "acme", "github")
        with pytest.raises(PlatformError, match="no connection") as raised:
            await table.platforms(database, keys, session).adapter_for(connection.id)
    assert (locked.value.fault, raised.value.fault) == ("unusable", "gone")
    assert table.requests == []


async def _insert_repo(
    tx: Transaction,
    organization_id: str,
    connection_id: str,
    number: int,
    due_at: int,
    error: str | None,
) -> str:
    repo_id = new_id("repo")
    await tx.execute(
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, created_at, connection_id, external_id)"
        " VALUES (:id, :organization_id, :full_name, 'github', '', 'main',"
        " '', 1, :connection_id, :external_id)",
        id=repo_id,
        organization_id=organization_id,
        full_name=f"acme/shop{number}",
        connection_id=connection_id,
        external_id=str(number),
    )
    await update_repos(
        tx,
        "sync_due_at = :due_at, sync_error = :error",
        "r.id = :id",
        id=repo_id,
        due_at=due_at,
        error=error,
    )
    return repo_id


async def _disconnect_all(tx: Transaction) -> None:
    await tx.execute("UPDATE repos SET disconnected_at = 1")


async def _move_secrets(tx: Transaction, source: str, target: str) -> None:
    await tx.execute(
        "UPDATE platform_connections SET sealed = (SELECT c.sealed FROM platform_connections c"
        " WHERE c.id = :source) WHERE id = :target",
        source=source,
        target=target,
    )


async def _swap_secrets(tx: Transaction, connection_id: str) -> None:
    await tx.execute(
        "UPDATE platform_connections SET sealed = hook_sealed WHERE id = :id", id=connection_id
    )
