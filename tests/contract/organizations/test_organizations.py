"""Organizations, plans and keys, on both stores."""

import asyncio

import pytest

from agentjobs.clock import DAY_MS, now_ms
from agentjobs.organizations.api_keys import create_key, list_keys, revoke_key
from agentjobs.organizations.authentication import ApiKeyAuthenticator
from agentjobs.organizations.organizations import (
    create_organization,
    ensure_default,
    find_organization,
    list_organizations,
    set_plan,
)
from agentjobs.organizations.plans import Plans
from agentjobs.problems import Problem
from agentjobs.settings.tables import DEFAULT_PLANS
from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_database

PLANS = Plans(DEFAULT_PLANS)


async def problem_of(coroutine: object) -> str:
    with pytest.raises(Problem) as problem:
        await coroutine  # type: ignore[misc] # any awaitable will do
    return problem.value.code


async def test_the_default_organization_is_created_once_on_the_highest_plan(
    database: Database,
) -> None:
    assert await ensure_default(database, PLANS)
    assert not await ensure_default(database, PLANS)
    assert (await find_organization(database, "default")).plan == "enterprise"


async def test_two_concurrent_starts_create_one_default_organization(database: Database) -> None:
    created = await asyncio.gather(*(ensure_default(database, PLANS) for _ in range(5)))
    assert sum(created) == 1
    assert len(await list_organizations(database)) == 1


INVALID_NAMES = ["", "A", "a b", "-a", "a-", "git", "v1", "x" * 64, "a/b", "a\x00"]


async def test_a_name_that_does_not_fit_into_a_url_is_refused(
    database: Database, subtests: pytest.Subtests
) -> None:
    for name in INVALID_NAMES:
        with subtests.test(repr(name)):
            creation = create_organization(database, PLANS, name, "free")
            assert await problem_of(creation) == "invalid_name"


async def test_a_taken_name_and_an_unknown_plan_are_refused(database: Database) -> None:
    await create_organization(database, PLANS, "acme", "free")
    assert await problem_of(create_organization(database, PLANS, "acme", "pro")) == "name_taken"
    assert await problem_of(create_organization(database, PLANS, "b", "gold")) == "unknown_plan"
    assert await problem_of(set_plan(database, PLANS, "acme", "gold")) == "unknown_plan"
    assert await problem_of(find_organization(database, "b")) == "organization_not_found"


async def test_a_key_authenticates_its_organization_and_is_stored_only_as_a_hash(
    database: Database,
) -> None:
    await ensure_default(database, PLANS)
    created = await create_key(database, "default", name="ci", git_write=True, scope="jobs")
    caller = await ApiKeyAuthenticator(database).authenticate(created.key)
    assert caller is not None
    assert (caller.organization, caller.plan, caller.scope, caller.git_write) == (
        "default",
        "enterprise",
        "jobs",
        True,
    )
    rows = await database.fetch_all("SELECT * FROM api_keys")
    assert created.key not in str([dict(row) for row in rows])
    assert created.key not in repr(await list_keys(database, "default"))


async def test_wrong_keys_open_nothing(database: Database) -> None:
    await ensure_default(database, PLANS)
    key = (await create_key(database, "default")).key
    ring = ApiKeyAuthenticator(database)
    for wrong in ("", "ajk_", key[:-1], key + "x", key.lower(), "ajk_" + "0" * 38, "ä" * 42):
        assert await ring.authenticate(wrong) is None


async def test_a_revoked_key_is_refused_at_once_here_and_soon_in_other_processes(
    database: Database, database_url: str
) -> None:
    await ensure_default(database, PLANS)
    created = await create_key(database, "default")
    other_database = await open_database(database_url, migrate=False)
    try:
        authenticator, other_authenticator = (
            ApiKeyAuthenticator(database),
            ApiKeyAuthenticator(other_database),
        )
        assert await authenticator.authenticate(created.key) is not None
        assert await other_authenticator.authenticate(created.key) is not None
        await revoke_key(database, "default", created.record.id)
        assert await authenticator.authenticate(created.key) is None
        async with asyncio.timeout(1):
            # The condition is the other process's view of the store: there is nothing to await.
            while await other_authenticator.authenticate(created.key) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        await other_database.close()


async def test_an_expired_key_is_refused_even_if_cached(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ensure_default(database, PLANS)
    key = (await create_key(database, "default", expires_days=1)).key
    ring = ApiKeyAuthenticator(database)
    assert await ring.authenticate(key) is not None
    tomorrow = now_ms() + DAY_MS + 1
    monkeypatch.setattr("agentjobs.organizations.authentication.now_ms", lambda: tomorrow)
    assert await ring.authenticate(key) is None


async def test_a_new_plan_applies_to_cached_keys(database: Database) -> None:
    await ensure_default(database, PLANS)
    key = (await create_key(database, "default")).key
    ring = ApiKeyAuthenticator(database)
    assert await ring.authenticate(key) is not None
    await set_plan(database, PLANS, "default", "free")
    caller = await ring.authenticate(key)
    assert caller is not None
    assert caller.plan == "free"


async def test_the_cache_is_bypassed_while_changes_may_be_missed(database: Database) -> None:
    await ensure_default(database, PLANS)
    created = await create_key(database, "default")
    ring = ApiKeyAuthenticator(database)
    assert await ring.authenticate(created.key) is not None
    database.changes.live = False

    async def revoke_unheard(tx: Transaction) -> None:
        await tx.execute("UPDATE api_keys SET revoked_at = 1")

    await database.transact(revoke_unheard)
    assert await ring.authenticate(created.key) is None
    database.changes.live = True


async def test_last_use_is_recorded_in_one_write_for_many_requests(database: Database) -> None:
    await ensure_default(database, PLANS)
    key = (await create_key(database, "default")).key
    ring = ApiKeyAuthenticator(database)
    for _ in range(10):
        await ring.authenticate(key)
    (before,) = await list_keys(database, "default")
    assert before.last_used_at is None
    await ring.flush_last_used()
    (after,) = await list_keys(database, "default")
    assert after.last_used_at is not None


async def test_a_key_of_another_organization_cannot_be_revoked(database: Database) -> None:
    await ensure_default(database, PLANS)
    await create_organization(database, PLANS, "other", "free")
    created = await create_key(database, "default")
    assert await problem_of(revoke_key(database, "other", created.record.id)) == "key_not_found"
    assert (await revoke_key(database, "default", created.key)).revoked_at is not None


async def test_invalid_options_of_a_key_are_refused(database: Database) -> None:
    await ensure_default(database, PLANS)
    assert await problem_of(create_key(database, "default", scope="admin")) == "invalid_scope"
    both = create_key(database, "default", scope="read", git_write=True)
    assert await problem_of(both) == "invalid_scope"
    assert await problem_of(create_key(database, "default", expires_days=0)) == "invalid_expiry"
    assert await problem_of(create_key(database, "default", name="x" * 300)) == "invalid_name"
