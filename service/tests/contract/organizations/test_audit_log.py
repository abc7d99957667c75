"""Every administrative change writes an audit entry in its own transaction, on both stores."""

import asyncio
import base64
from collections.abc import Awaitable
from pathlib import Path

import pytest

from agentjobs.organizations.api_keys import create_key, list_keys, revoke_key
from agentjobs.organizations.audit import (
    SERVICE,
    Actor,
    AuditFilter,
    AuditRecord,
    acting_as,
    entry,
    list_entries,
    write,
)
from agentjobs.organizations.budgets import list_budgets, set_budget
from agentjobs.organizations.organizations import (
    Organization,
    create_organization,
    find_organization,
    list_organizations,
    set_plan,
    set_setup_network,
)
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.secrets import list_secrets, remove_secret, set_secret
from agentjobs.organizations.users import add_user
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import close_pull, get_pull, ready_pull
from agentjobs.repos.connect import connect_repository, disconnect_repository
from agentjobs.repos.protected_paths import remove_protection, restore_protection
from agentjobs.repos.queries import find_repo
from agentjobs.store.database import Database, StoreError, Transaction
from agentjobs.webhooks.allowed_addresses import configured_allow_list, with_loopback
from agentjobs.webhooks.endpoints import (
    disable_endpoint,
    enable_endpoint,
    list_endpoints,
    remove_endpoint,
)
from agentjobs.webhooks.ping import send_test
from agentjobs.webhooks.redelivery import redeliver, redeliver_failed
from agentjobs.webhooks.registration import CreatedEndpoint, add_endpoint
from agentjobs.webhooks.secret_rotation import promote_secret, rotate_secret
from agentjobs_runtime.clock import DAY_MS, iso_utc
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import load
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.deliveries import DeliveryHarness, attempt, organization_with_id
from tests.support.git_commands import make_repository
from tests.support.local_repository import Platform, make_platform
from tests.support.receiver import receiver

ADA = Actor("user", "ada@example.com", "usr_1", "203.0.113.9")
PLANS = Plans(DEFAULT_PLANS)
URL = "https://hooks.example.com/agentjobs"
HERE = ("acme", "acme/shop")


@pytest.fixture
def keys(tmp_path: Path) -> SealingKeys:
    return SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")


@pytest.fixture
async def acme(database: Database) -> Organization:
    await create_organization(database, PLANS, "other", "free")
    return await create_organization(database, PLANS, "acme", "free")


class AuditLogReader:
    """Reads the audit entries that each operation adds to an organization's log."""

    def __init__(self, db: Database, organization_id: str) -> None:
        self._db = db
        self._organization_id = organization_id
        self._seen = ""

    async def new(self) -> list[AuditRecord]:
        """Returns the records since the last call, oldest first."""
        records = await list_entries(self._db, self._organization_id, AuditFilter(), limit=1_000)
        fresh = [record for record in reversed(records) if record.id > self._seen]
        self._seen = records[0].id if records else ""
        return fresh

    async def assert_recorded(
        self, operation: Awaitable[object], action: str, target: str
    ) -> dict[str, object]:
        """Runs the operation as Ada, expects one record and returns its details."""
        with acting_as(ADA):
            await operation
        (record,) = await self.new()
        assert (record.actor_kind, record.actor_id, record.actor) == (ADA.kind, ADA.id, ADA.name)
        assert (record.address, record.action, record.target) == (ADA.address, action, target)
        return record.details

    async def assert_nothing_recorded(self, operation: Awaitable[object]) -> None:
        with acting_as(ADA):
            await operation
        assert await self.new() == []

    async def assert_refused(self, operation: Awaitable[object], code: str) -> None:
        with pytest.raises(Problem) as raised:
            await operation
        assert raised.value.code == code
        assert await self.new() == []


async def add(db: Database, keys: SealingKeys, url: str = URL) -> CreatedEndpoint:
    return await add_endpoint(
        db, keys, "acme", url, allowed=AllowList(), lookup=lambda _: ["93.184.215.14"]
    )


async def test_changes_of_an_organization_are_audited_once(
    database: Database, keys: SealingKeys
) -> None:
    with acting_as(ADA):
        owner = await create_organization(database, PLANS, "acme", "free")
    log = AuditLogReader(database, owner.id)
    (entry,) = await log.new()
    assert (entry.action, entry.target, entry.actor) == ("organization.created", "acme", ADA.name)
    assert entry.details == {"plan": "free"}
    await log.assert_refused(create_organization(database, PLANS, "acme", "free"), "name_taken")

    details = await log.assert_recorded(
        set_plan(database, PLANS, "acme", "pro"), "plan.changed", "acme"
    )
    assert details == {"from": "free", "to": "pro"}
    await log.assert_nothing_recorded(set_plan(database, PLANS, "acme", "pro"))

    details = await log.assert_recorded(
        set_budget(database, "acme", daily="5"), "budget.changed", "acme"
    )
    assert details == {"daily": "5.00", "job": "none"}
    await log.assert_nothing_recorded(set_budget(database, "acme", daily="5.0"))
    await log.assert_refused(set_budget(database, "acme", daily="much"), "invalid_amount")

    limiting = set_setup_network(database, "acme", ("pypi.test",))
    details = await log.assert_recorded(limiting, "organization.setup_network_set", "acme")
    assert details == {"hosts": ["pypi.test"]}
    await log.assert_nothing_recorded(set_setup_network(database, "acme", ("pypi.test",)))

    setting = set_secret(database, keys, "acme", "API_KEY", "s3cret")
    assert await log.assert_recorded(setting, "secret.set", "API_KEY") == {}
    removing = remove_secret(database, "acme", "API_KEY")
    assert await log.assert_recorded(removing, "secret.removed", "API_KEY") == {}
    await log.assert_refused(remove_secret(database, "acme", "API_KEY"), "secret_not_found")


async def test_audited_keys_have_their_name_and_never_their_value(
    database: Database, acme: Organization
) -> None:
    log = AuditLogReader(database, acme.id)
    await log.new()
    making = create_key(
        database,
        "acme",
        name="ci",
        git_write=True,
        expires_at=await database.clock_ms() + DAY_MS,
    )
    details = await log.assert_recorded(making, "api_key.created", "ci")
    (key,) = await list_keys(database, "acme")
    assert details == {
        "key": key.id,
        "scope": "jobs",
        "git_write": True,
        "expires_at": iso_utc(key.expires_at or 0),
    }
    text = (await create_key(database, "acme", name="by mistake")).key
    await log.new()
    await log.assert_recorded(revoke_key(database, "acme", text), "api_key.revoked", "by mistake")
    await log.assert_nothing_recorded(revoke_key(database, "acme", text))
    await log.assert_refused(revoke_key(database, "acme", "key_none"), "key_not_found")
    records = await list_entries(database, acme.id, AuditFilter(), limit=100)
    assert text not in repr(records)


async def test_audited_endpoints_omit_the_query_of_their_url(
    database: Database, keys: SealingKeys, acme: Organization
) -> None:
    log = AuditLogReader(database, acme.id)
    await log.new()
    url = f"{URL}?token=s3cret"
    details = await log.assert_recorded(add(database, keys, url), "webhook.added", URL)
    (endpoint,) = await list_endpoints(database, "acme")
    endpoint_details = {"endpoint": endpoint.id}
    assert details == {**endpoint_details, "events": []}
    arguments = (database, "acme", endpoint.id)
    await log.assert_nothing_recorded(enable_endpoint(*arguments))
    assert (
        await log.assert_recorded(disable_endpoint(*arguments), "webhook.disabled", URL)
        == endpoint_details
    )
    await log.assert_nothing_recorded(disable_endpoint(*arguments))
    assert (
        await log.assert_recorded(enable_endpoint(*arguments), "webhook.enabled", URL)
        == endpoint_details
    )
    rotating = rotate_secret(database, keys, "acme", endpoint.id, 3)
    details = await log.assert_recorded(rotating, "webhook.secret_rotated", URL)
    assert details == {**endpoint_details, "overlap_hours": 3}
    assert (
        await log.assert_recorded(promote_secret(*arguments), "webhook.secret_promoted", URL)
        == endpoint_details
    )
    await log.assert_refused(promote_secret(*arguments), "no_pending_secret")
    assert (
        await log.assert_recorded(remove_endpoint(*arguments), "webhook.removed", URL)
        == endpoint_details
    )
    await log.assert_refused(remove_endpoint(*arguments), "endpoint_not_found")
    await log.assert_refused(add(database, keys, "https://10.0.0.1/"), "blocked_address")


async def test_the_same_change_made_twice_concurrently_is_audited_once(
    database: Database, keys: SealingKeys, acme: Organization
) -> None:
    endpoint = (await add(database, keys)).endpoint
    await rotate_secret(database, keys, "acme", endpoint.id)
    key = (await create_key(database, "acme")).record
    log = AuditLogReader(database, acme.id)
    await log.new()
    results = await asyncio.gather(
        *(promote_secret(database, "acme", endpoint.id) for _ in range(4)),
        *(revoke_key(database, "acme", key.id) for _ in range(4)),
        *(set_plan(database, PLANS, "acme", "pro") for _ in range(4)),
        return_exceptions=True,
    )
    problems = [problem for problem in results if isinstance(problem, Exception)]
    assert {getattr(problem, "code", problem) for problem in problems} <= {"no_pending_secret"}
    assert sorted(record.action for record in await log.new()) == [
        "api_key.revoked",
        "plan.changed",
        "webhook.secret_promoted",
    ]


async def test_an_endpoint_disabled_by_the_service_is_audited(
    database: Database,
) -> None:
    harness = DeliveryHarness(database)
    await harness.organization("org_a")
    endpoint_id = await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (claimed,) = await harness.claim()
    with acting_as(ADA):
        await harness.record((claimed, attempt(410)))
    (record,) = await AuditLogReader(database, "org_a").new()
    assert (record.actor_kind, record.actor, record.action) == (
        SERVICE.kind,
        SERVICE.name,
        "webhook.disabled",
    )
    assert record.target == f"https://receiver.example/{endpoint_id}"
    assert record.details == {"endpoint": endpoint_id, "reason": "gone"}


async def test_redeliveries_are_audited_with_their_number(database: Database) -> None:
    harness = DeliveryHarness(database)
    await harness.organization("org_a")
    endpoint_id = await harness.endpoint("org_a")
    for number in range(3):
        await harness.event("org_a", f"job_{number}")
    claimed = await harness.claim()
    log = AuditLogReader(database, "org_a")
    await log.assert_refused(
        redeliver(database, organization_with_id("org_a"), claimed[0].id), "delivery_in_progress"
    )
    for each in claimed:
        await harness.record((each, attempt(200)))
    address = f"https://receiver.example/{endpoint_id}"
    redelivering = redeliver(database, organization_with_id("org_a"), claimed[0].id)
    details = await log.assert_recorded(redelivering, "webhook.redelivered", address)
    assert details == {"delivery": claimed[0].id, "count": 1}

    await log.assert_nothing_recorded(redeliver_failed(database, "org_a", 0))
    await database.transact(_execute, "UPDATE deliveries SET status = 'failed'")
    details = await log.assert_recorded(
        redeliver_failed(database, "org_a", 0), "webhook.redelivered", "all endpoints"
    )
    assert details == {"failed_since": iso_utc(0), "count": 3}
    await database.transact(_execute, "UPDATE deliveries SET status = 'failed'")
    repeated = redeliver_failed(database, "org_a", 0, endpoint_id)
    assert (await log.assert_recorded(repeated, "webhook.redelivered", address))["count"] == 3
    await database.transact(_execute, "UPDATE deliveries SET status = 'failed'")
    await harness.change_endpoint(endpoint_id, disabled_at=1, disabled_reason="gone")
    await log.assert_nothing_recorded(redeliver_failed(database, "org_a", 0))


async def test_a_ping_is_audited_with_its_outcome(
    database: Database, keys: SealingKeys, acme: Organization, tmp_path: Path
) -> None:
    settings = load({}, data_dir=str(tmp_path))
    allowed = with_loopback(configured_allow_list(settings))
    log = AuditLogReader(database, acme.id)
    with receiver(lambda _: 500) as receiving:
        added = await add_endpoint(database, keys, "acme", receiving.url, allowed=allowed)
        await log.new()
        pinging = send_test(database, keys, settings, added.endpoint.id, allowed)
        details = await log.assert_recorded(pinging, "webhook.tested", receiving.url)
    assert (details["endpoint"], details["succeeded"]) == (added.endpoint.id, False)
    await log.assert_refused(
        send_test(database, keys, settings, "whk_none", allowed), "endpoint_not_found"
    )


async def test_changes_of_a_repository_are_audited(
    database: Database, acme: Organization, tmp_path: Path
) -> None:
    settings = load({}, data_dir=str(tmp_path / "data"))
    source = str(make_repository(tmp_path / "shop"))
    log = AuditLogReader(database, acme.id)
    await log.new()
    connecting = connect_repository(database, settings, "acme", source)
    assert await log.assert_recorded(connecting, "repo.connected", "acme/shop") == {}
    await log.assert_refused(connect_repository(database, settings, "acme", source), "name_taken")
    pattern = {"pattern": "CODEOWNERS"}
    unprotecting = remove_protection(database, *HERE, "CODEOWNERS")
    assert await log.assert_recorded(unprotecting, "repo.path_lifted", "acme/shop") == pattern
    await log.assert_nothing_recorded(remove_protection(database, *HERE, "CODEOWNERS"))
    protecting = restore_protection(database, *HERE, "CODEOWNERS")
    assert await log.assert_recorded(protecting, "repo.path_protected", "acme/shop") == pattern
    await log.assert_refused(restore_protection(database, *HERE, "CODEOWNERS"), "not_lifted")

    await log.assert_refused(disconnect_repository(database, *HERE, also=_fail), "stopped")
    assert (await find_repo(database, acme.id, "acme/shop")).full_name == "acme/shop"

    async def disconnect_twice() -> None:
        both = (disconnect_repository(database, *HERE, also=_nothing) for _ in range(2))
        await asyncio.gather(*both, return_exceptions=True)

    assert await log.assert_recorded(disconnect_twice(), "repo.disconnected", "acme/shop") == {}
    await log.assert_refused(
        disconnect_repository(database, *HERE, also=_nothing), "repo_not_connected"
    )


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> Platform:
    return await make_platform(database, tmp_path)


async def test_audited_pull_requests_name_who_ended_them(platform: Platform) -> None:
    db = platform.db
    log = AuditLogReader(db, platform.organization.id)
    await log.new()
    await platform.open_pull("agentjobs/one", {"a": "1"}, draft=True)
    await platform.open_pull("agentjobs/two", {"b": "2"})
    await log.assert_refused(ready_pull(db, *HERE, 1, also=_fail), "stopped")
    assert (await get_pull(db, *HERE, 1)).draft
    await log.assert_refused(merge_pull(db, platform.settings, *HERE, 1), "pull_not_mergeable")
    assert await log.assert_recorded(ready_pull(db, *HERE, 1), "pull.ready", "acme/shop#1") == {}
    await log.assert_nothing_recorded(ready_pull(db, *HERE, 1))
    merging = merge_pull(db, platform.settings, *HERE, 1)
    assert await log.assert_recorded(merging, "pull.merged", "acme/shop#1") == {}
    assert (await get_pull(db, *HERE, 1)).ended_by == ADA.name
    assert (await get_pull(db, *HERE, 2)).ended_by is None
    assert await log.assert_recorded(close_pull(db, *HERE, 2), "pull.closed", "acme/shop#2") == {}
    assert (await get_pull(db, *HERE, 2)).ended_by == ADA.name
    await log.assert_refused(close_pull(db, *HERE, 2), "pull_not_open")


async def test_a_change_that_cannot_be_audited_is_rolled_back(
    database: Database, keys: SealingKeys, platform: Platform, tmp_path: Path
) -> None:
    await platform.open_pull("agentjobs/one", {"a": "1"}, draft=True)
    endpoint = (await add(database, keys)).endpoint
    await rotate_secret(database, keys, "acme", endpoint.id)
    (endpoint,) = await list_endpoints(database, "acme")
    key = (await create_key(database, "acme")).record
    await set_secret(database, keys, "acme", "KEPT", "value")
    budgets = await list_budgets(database)
    await database.transact(_execute, "ALTER TABLE audit_log RENAME TO lost")

    arguments = (database, "acme", endpoint.id)
    for operation in (
        create_organization(database, PLANS, "new", "free"),
        set_plan(database, PLANS, "acme", "pro"),
        set_budget(database, "acme", daily="5"),
        create_key(database, "acme"),
        revoke_key(database, "acme", key.id),
        set_secret(database, keys, "acme", "NEW", "value"),
        remove_secret(database, "acme", "KEPT"),
        add(database, keys, URL + "/new"),
        disable_endpoint(*arguments),
        promote_secret(*arguments),
        remove_endpoint(*arguments),
        connect_repository(
            database, platform.settings, "acme", str(make_repository(tmp_path / "new"))
        ),
        disconnect_repository(database, *HERE, also=_nothing),
        remove_protection(database, *HERE, "CODEOWNERS"),
        close_pull(database, *HERE, 1),
        ready_pull(database, *HERE, 1),
    ):
        with pytest.raises(StoreError):
            await operation

    assert [organization.name for organization in await list_organizations(database)] == ["acme"]
    assert (await find_organization(database, "acme")).plan == "enterprise"
    assert await list_budgets(database) == budgets
    assert await list_keys(database, "acme") == [key]
    assert [secret.name for secret in await list_secrets(database, "acme")] == ["KEPT"]
    assert await list_endpoints(database, "acme") == [endpoint]
    rows = await database.fetch_all("SELECT full_name, lifted_paths, disconnected_at FROM repos")
    assert [tuple(dict(row).values()) for row in rows] == [("acme/shop", "[]", None)]
    pull = await get_pull(database, *HERE, 1)
    assert (pull.state, pull.draft, pull.ended_by) == ("open", True, None)


async def test_entries_are_filtered_paged_and_private_to_their_organization(
    database: Database, acme: Organization
) -> None:
    other = await find_organization(database, "other")
    for number in range(3):
        with acting_as(Actor("user", f"user{number}")):
            await database.transact(write, acme.id, entry("secret.set", f"S{number}"))
            await database.transact(write, acme.id, entry("secrets.odd", "no secret at all"))
    await database.transact(write, other.id, entry("secret.set", "THEIRS"))

    async def targets(
        filters: AuditFilter, limit: int = 100, before: str | None = None
    ) -> list[str]:
        records = await list_entries(database, acme.id, filters, limit=limit, before=before)
        return [record.target for record in records]

    assert await targets(AuditFilter(action="secret")) == ["S2", "S1", "S0"]
    assert await targets(AuditFilter(action="secret.set", actor="user1")) == ["S1"]
    every = await list_entries(database, acme.id, AuditFilter(), limit=100)
    assert [record.target for record in every][-1] == "acme"
    assert len(every) == 7
    page = await targets(AuditFilter(action="secret"), 1, before=every[1].id)
    assert page == ["S1"]
    assert await targets(AuditFilter(since=every[0].at + 60_000)) == []
    assert await targets(AuditFilter(until=every[-1].at - 60_000)) == []
    assert len(await targets(AuditFilter(since=every[-1].at, until=every[0].at + 1))) == 7
    other_entries = await list_entries(database, other.id, AuditFilter(), limit=100)
    assert [record.target for record in other_entries] == ["THEIRS", "other"]


async def _execute(tx: Transaction, sql: str) -> None:
    await tx.execute(sql)


async def _nothing(tx: Transaction, target: object) -> None:
    pass


async def _fail(tx: Transaction, target: object) -> None:
    raise Problem("stopped", "Try again.")


async def test_entries_of_a_user_are_found_by_email_and_id_regardless_of_names(
    database: Database, acme: Organization
) -> None:
    ada = await add_user(database, acme.id, "ada@example.com", "member", name="Ada")
    eve = await add_user(database, acme.id, "eve@example.com", "member", name="Eve")
    # Eve uses the name Ada; the key has Ada's identifier but is not a user.
    for actor in (
        Actor("user", "Ada", ada.id),
        Actor("user", "Ada", eve.id),
        Actor("user", "Eve", eve.id),
        Actor("key", "Ada", ada.id),
        Actor("operator", "Ada"),
    ):
        with acting_as(actor):
            audit_entry = entry("secret.set", actor.kind)
        await database.transact(write, acme.id, audit_entry)

    async def list_actors(**filters: str) -> list[tuple[str, str | None]]:
        by = AuditFilter(action="secret.set", **filters)
        entries = await list_entries(database, acme.id, by, limit=9)
        return [(each.actor_kind, each.actor_email) for each in reversed(entries)]

    eves, adas = ("user", eve.email), ("user", ada.email)
    assert await list_actors() == [adas, eves, eves, ("key", None), ("operator", None)]
    assert await list_actors(actor="Ada") == [adas, eves, ("key", None), ("operator", None)]
    assert await list_actors(actor=" EVE@example.com") == [eves, eves]
    assert await list_actors(actor_id=eve.id) == [eves, eves]
    assert await list_actors(actor_id=eve.id, actor="Ada") == [eves]
    assert await list_actors(actor_id="usr_0") == []
