"""Secrets and budgets of organizations, on both stores."""

import base64
from pathlib import Path

import pytest

from agentjobs.organizations.budgets import Budget, list_budgets, set_budget
from agentjobs.organizations.organizations import create_organization, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.secrets import list_secrets, open_secret, remove_secret, set_secret
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS

VALUE = "sk-ant-" + "x1" * 30
USD = 1_000_000_000


@pytest.fixture
def keys(tmp_path: Path) -> SealingKeys:
    return SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")


@pytest.fixture
async def acme(database: Database) -> str:
    for name in ("acme", "other"):
        await create_organization(database, Plans(DEFAULT_PLANS), name, "free")
    return (await find_organization(database, "acme")).id


async def test_a_secret_is_encrypted_and_opens_only_for_its_organization(
    database: Database, keys: SealingKeys, acme: str
) -> None:
    stored = await set_secret(database, keys, "acme", "API_KEY", VALUE)
    assert await open_secret(database, keys, acme, "API_KEY") == VALUE
    assert await open_secret(database, keys, acme, "OTHER") is None
    other = await find_organization(database, "other")
    assert await open_secret(database, keys, other.id, "API_KEY") is None
    assert await list_secrets(database, "acme") == [stored]
    assert await list_secrets(database, "other") == []
    (row,) = await database.fetch_all("SELECT * FROM secrets")
    assert VALUE.encode() not in bytes(row["sealed"])


async def test_a_secret_set_again_has_its_new_value_and_keeps_its_creation_time(
    database: Database, keys: SealingKeys, acme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await set_secret(database, keys, "acme", "API_KEY", VALUE)
    later = first.updated_at + 5_000
    monkeypatch.setattr("agentjobs.organizations.secrets.now_ms", lambda: later)
    repeated = await set_secret(database, keys, "acme", "API_KEY", "two\nlines")
    assert (repeated.created_at, repeated.updated_at) == (first.created_at, later)
    assert await open_secret(database, keys, acme, "API_KEY") == "two\nlines"


async def test_a_removed_secret_is_gone(database: Database, keys: SealingKeys, acme: str) -> None:
    await set_secret(database, keys, "acme", "API_KEY", VALUE)
    await remove_secret(database, "acme", "API_KEY")
    assert await open_secret(database, keys, acme, "API_KEY") is None
    with pytest.raises(Problem, match="secrets list"):
        await remove_secret(database, "acme", "API_KEY")


async def test_a_secret_moved_to_another_organization_cannot_be_decrypted(
    database: Database, keys: SealingKeys, acme: str
) -> None:
    await set_secret(database, keys, "acme", "API_KEY", VALUE)
    other = await find_organization(database, "other")
    await database.transact(_give_all_to, other.id)
    with pytest.raises(Problem, match="API_KEY") as problem:
        await open_secret(database, keys, other.id, "API_KEY")
    assert problem.value.code == "sealed_value_damaged"


INVALID_SECRETS = [
    ("", VALUE),
    ("1A", VALUE),
    ("A-B", VALUE),
    ("A" * 65, VALUE),
    ("ÄB", VALUE),
    ("A\n", VALUE),
    ("A", ""),
    ("A", " \n"),
    ("A", "x\0y"),
    ("A", "x" * (32 * 1024 + 1)),
]


async def test_invalid_secrets_are_refused_and_not_stored(
    database: Database, keys: SealingKeys, acme: str, subtests: pytest.Subtests
) -> None:
    for name, value in INVALID_SECRETS:
        with subtests.test(repr((name, value[:8]))):
            with pytest.raises(Problem) as problem:
                await set_secret(database, keys, "acme", name, value)
            assert problem.value.code in {"invalid_name", "invalid_secret"}
            assert await list_secrets(database, "acme") == []


async def test_a_budget_is_stored_exactly_and_each_limit_changes_alone(
    database: Database, acme: str
) -> None:
    assert (await list_budgets(database))[acme] == Budget(None, None)
    await set_budget(database, "acme", daily="25", job="0.000000001")
    assert (await list_budgets(database))[acme] == Budget(25 * USD, 1)
    assert await set_budget(database, "acme", daily="0.1") == Budget(USD // 10, 1)
    assert await set_budget(database, "acme", job="none") == Budget(USD // 10, None)
    other = await find_organization(database, "other")
    assert await list_budgets(database) == {
        acme: Budget(USD // 10, None),
        other.id: Budget(None, None),
    }


INVALID_AMOUNTS = [
    *("", "0", "0.0", "-1", "1e3", "nan", "1.0000000001", "$5", "5,0", "\u0665", "9999999999")
]


async def test_an_invalid_amount_is_refused(
    database: Database, acme: str, subtests: pytest.Subtests
) -> None:
    for text in INVALID_AMOUNTS:
        with subtests.test(repr(text)):
            with pytest.raises(Problem) as problem:
                await set_budget(database, "acme", daily="5", job=text)
            assert problem.value.code == "invalid_amount"
            assert (await list_budgets(database))[acme] == Budget(None, None)


async def _give_all_to(tx: Transaction, organization_id: str) -> None:
    await tx.execute("UPDATE secrets SET organization_id = :id", id=organization_id)
