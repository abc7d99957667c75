"""Organizations, plans and keys, on both stores."""

import asyncio
from typing import Any

import msgspec
import pytest

from agentjobs.organizations.api_keys import (
    KeyChanges,
    create_key,
    edit_key,
    list_keys,
    revoke_key,
)
from agentjobs.organizations.audit import AuditFilter, list_entries
from agentjobs.organizations.authentication import AddressNotAllowed, ApiKeyAuthenticator
from agentjobs.organizations.organizations import (
    create_organization,
    ensure_default,
    find_organization,
    list_organizations,
    set_plan,
    set_setup_network,
)
from agentjobs.organizations.plans import Plans
from agentjobs.store.database import Database, Transaction
from agentjobs.store.opening import open_database
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS

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
        async with asyncio.timeout(20):
            # The condition is the other process's view of the store: there is nothing to await.
            while await other_authenticator.authenticate(created.key) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        await other_database.close()


async def test_an_expired_key_is_refused_even_if_cached(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ensure_default(database, PLANS)
    key = (await create_key(database, "default", expires_at=await database.clock_ms() + DAY_MS)).key
    ring = ApiKeyAuthenticator(database)
    assert await ring.authenticate(key) is not None

    async def tomorrow() -> int:
        return now_ms() + DAY_MS + 1

    monkeypatch.setattr(database, "clock_ms", tomorrow)
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
    pulls = create_key(database, "default", scope="read", pulls=True)
    assert await problem_of(pulls) == "invalid_scope"
    assert await problem_of(create_key(database, "default", scope="pulls")) == "invalid_scope"


async def test_the_scope_pulls_is_only_given_on_request(database: Database) -> None:
    await ensure_default(database, PLANS)
    plain = await create_key(database, "default")
    assert plain.record.scopes == ("jobs",)
    created = await create_key(database, "default", pulls=True)
    caller = await ApiKeyAuthenticator(database).authenticate(created.key)
    assert caller is not None
    # Earlier versions treat a key as read-only if its scope is `read`, and only then.
    assert caller.scope == created.record.scope == "jobs pulls"
    edited = await edit_key(database, "default", created.record.id, KeyChanges(name="bot"))
    assert edited.scopes == ("jobs", "pulls")
    entries = await list_entries(
        database, caller.organization_id, AuditFilter(action="api_key.created"), limit=1
    )
    assert entries[0].details["scope"] == "jobs pulls"
    assert (
        await problem_of(create_key(database, "default", expires_at=await database.clock_ms()))
        == "invalid_expiry"
    )
    assert await problem_of(create_key(database, "default", name="x" * 300)) == "invalid_name"


async def test_a_key_is_accepted_only_from_its_networks(database: Database) -> None:
    await ensure_default(database, PLANS)
    networks = ["10.1.0.0/16", "2001:db8::/32", "203.0.113.7"]
    created = await create_key(database, "default", allowed_networks=networks)
    assert created.record.allowed_networks == ("10.1.0.0/16", "2001:db8::/32", "203.0.113.7/32")
    assert (await list_keys(database, "default")) == [created.record]
    ring = ApiKeyAuthenticator(database)
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "203.0.113.7"):
        assert await ring.authenticate(created.key, address) is not None
    for address in ("10.2.0.1", "203.0.113.8", "2001:db9::1", "", "unknown", "::a01:203"):
        with pytest.raises(AddressNotAllowed) as refused:
            await ring.authenticate(created.key, address)
        assert refused.value.code == "unauthorized"
        assert address in refused.value.message


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"allowed_networks": ["10.0.0.1/8"]}, "invalid_network"),
        ({"allowed_networks": ["example.com"]}, "invalid_network"),
        ({"allowed_networks": ["10.0.0.0/8"] * 51}, "invalid_network"),
        ({"expires_at": 1}, "invalid_expiry"),
        ({"expires_at": now_ms() + 3_651 * DAY_MS}, "invalid_expiry"),
    ],
)
async def test_invalid_networks_and_expiries_are_refused(
    database: Database, options: dict[str, Any], code: str
) -> None:
    await ensure_default(database, PLANS)
    assert await problem_of(create_key(database, "default", **options)) == code
    assert await list_keys(database, "default") == []
    created = await create_key(database, "default", name="kept")
    changes = KeyChanges(**options)
    edit = edit_key(database, "default", created.record.id, changes)
    assert await problem_of(edit) == code
    assert await list_keys(database, "default") == [created.record]


async def test_a_change_of_a_key_takes_effect_in_other_processes_within_a_second(
    database: Database, database_url: str
) -> None:
    await ensure_default(database, PLANS)
    created = await create_key(database, "default")
    elsewhere = await open_database(database_url, migrate=False)
    try:
        here, there = ApiKeyAuthenticator(database), ApiKeyAuthenticator(elsewhere)
        for ring in (here, there):
            assert await ring.authenticate(created.key, "10.0.0.1") is not None
        changes = KeyChanges(name="new", allowed_networks=["192.0.2.0/24"])
        edited = await edit_key(database, "default", created.record.id, changes)
        assert (edited.name, edited.allowed_networks) == ("new", ("192.0.2.0/24",))
        with pytest.raises(AddressNotAllowed):
            await here.authenticate(created.key, "10.0.0.1")
        async with asyncio.timeout(20):
            await _until_refused(there, created.key, "10.0.0.1")
    finally:
        await elsewhere.close()


async def _until_refused(ring: ApiKeyAuthenticator, key: str, address: str) -> None:
    try:
        # The condition is the other process's view of the store: there is nothing to await.
        while await ring.authenticate(key, address):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    except AddressNotAllowed:
        return


async def test_an_expiry_can_be_changed_and_removed(database: Database) -> None:
    await ensure_default(database, PLANS)
    created = await create_key(database, "default", expires_at=await database.clock_ms() + DAY_MS)
    later = now_ms() + 5 * DAY_MS
    key_id = created.record.id
    assert (
        await edit_key(database, "default", key_id, KeyChanges(expires_at=later))
    ).expires_at == later
    assert (
        await edit_key(database, "default", key_id, KeyChanges(expires_at=None))
    ).expires_at is None
    unchanged = await edit_key(database, "default", key_id, KeyChanges())
    assert unchanged == msgspec.structs.replace(created.record, expires_at=None)


async def test_revoked_and_unknown_keys_cannot_be_edited(database: Database) -> None:
    await ensure_default(database, PLANS)
    created = await create_key(database, "default")
    changes = KeyChanges(name="x")
    await create_organization(database, PLANS, "other", "pro")
    for organization, key_id in (("default", "key_none"), ("other", created.record.id)):
        edit = edit_key(database, organization, key_id, changes)
        assert await problem_of(edit) == "key_not_found"
    await revoke_key(database, "default", created.record.id)
    edit = edit_key(database, "default", created.record.id, changes)
    assert await problem_of(edit) == "key_revoked"


async def test_hosts_of_setup_are_limited_per_organization_and_restored(database: Database) -> None:
    owner = await create_organization(database, PLANS, "acme", "free")
    assert owner.setup_network is None
    for hosts in (("pypi.test", "*.npm.test:8443"), (), None):
        await set_setup_network(database, "acme", hosts)
        assert (await find_organization(database, "acme")).setup_network == hosts
    assert await problem_of(set_setup_network(database, "x", ())) == "organization_not_found"
