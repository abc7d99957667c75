"""Every administrative change is told in the audit log, in its own transaction, on both stores."""

import asyncio
import base64
from collections.abc import Awaitable
from pathlib import Path

import pytest

from agentjobs.clock import iso_utc
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
)
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.secrets import list_secrets, remove_secret, set_secret
from agentjobs.organizations.users import add_user
from agentjobs.outbound.guard.addresses import AllowList
from agentjobs.problems import Problem
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import close_pull, get_pull, ready_pull
from agentjobs.repos.connect import connect_repository, disconnect_repository
from agentjobs.repos.protected_paths import remove_protection, restore_protection
from agentjobs.repos.queries import find_repo
from agentjobs.settings import load
from agentjobs.settings.tables import DEFAULT_PLANS
from agentjobs.store.database import Database, StoreError, Transaction
from agentjobs.webhooks.allowed_addresses import effective_allow_list
from agentjobs.webhooks.endpoints import (
    disable_endpoint,
    enable_endpoint,
    list_endpoints,
    remove_endpoint,
)
from agentjobs.webhooks.ping import send_ping
from agentjobs.webhooks.redelivery import redeliver, redeliver_failed
from agentjobs.webhooks.registration import CreatedEndpoint, add_endpoint
from agentjobs.webhooks.secret_rotation import promote_secret, rotate_secret
from tests.support.deliveries import DeliveryHarness, attempt, known
from tests.support.local_repository import Platform, make_platform, make_repository
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


class Log:
    """What an organization's audit log says of one thing after the other."""

    def __init__(self, db: Database, organization_id: str) -> None:
        self._db = db
        self._organization_id = organization_id
        self._seen = ""

    async def new(self) -> list[AuditRecord]:
        """The oldest first."""
        found = await list_entries(self._db, self._organization_id, AuditFilter(), limit=1_000)
        fresh = [one for one in reversed(found) if one.id > self._seen]
        self._seen = found[0].id if found else ""
        return fresh

    async def tells(self, doing: Awaitable[object], action: str, target: str) -> dict[str, object]:
        """One entry, by whoever acted; its details."""
        with acting_as(ADA):
            await doing
        (one,) = await self.new()
        assert (one.actor_kind, one.actor_id, one.actor) == (ADA.kind, ADA.id, ADA.name)
        assert (one.address, one.action, one.target) == (ADA.address, action, target)
        return one.details

    async def tells_nothing(self, doing: Awaitable[object]) -> None:
        with acting_as(ADA):
            await doing
        assert await self.new() == []

    async def refuses(self, doing: Awaitable[object], code: str) -> None:
        with pytest.raises(Problem) as refused:
            await doing
        assert refused.value.code == code
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
    log = Log(database, owner.id)
    (made,) = await log.new()
    assert (made.action, made.target, made.actor) == ("organization.created", "acme", ADA.name)
    assert made.details == {"plan": "free"}
    await log.refuses(create_organization(database, PLANS, "acme", "free"), "name_taken")

    told = await log.tells(set_plan(database, PLANS, "acme", "pro"), "plan.changed", "acme")
    assert told == {"from": "free", "to": "pro"}
    await log.tells_nothing(set_plan(database, PLANS, "acme", "pro"))

    told = await log.tells(set_budget(database, "acme", daily="5"), "budget.changed", "acme")
    assert told == {"daily": "5.00", "job": "none"}
    await log.tells_nothing(set_budget(database, "acme", daily="5.0"))
    await log.refuses(set_budget(database, "acme", daily="much"), "invalid_amount")

    setting = set_secret(database, keys, "acme", "API_KEY", "s3cret")
    assert await log.tells(setting, "secret.set", "API_KEY") == {}
    removing = remove_secret(database, "acme", "API_KEY")
    assert await log.tells(removing, "secret.removed", "API_KEY") == {}
    await log.refuses(remove_secret(database, "acme", "API_KEY"), "secret_not_found")


async def test_audited_keys_have_their_name_and_never_their_value(
    database: Database, acme: Organization
) -> None:
    log = Log(database, acme.id)
    await log.new()
    making = create_key(database, "acme", name="ci", git_write=True, expires_days=1)
    told = await log.tells(making, "api_key.created", "ci")
    (key,) = await list_keys(database, "acme")
    assert told == {
        "key": key.id,
        "scope": "jobs",
        "git_write": True,
        "expires_at": iso_utc(key.expires_at or 0),
    }
    text = (await create_key(database, "acme", name="by mistake")).key
    await log.new()
    await log.tells(revoke_key(database, "acme", text), "api_key.revoked", "by mistake")
    await log.tells_nothing(revoke_key(database, "acme", text))
    await log.refuses(revoke_key(database, "acme", "key_none"), "key_not_found")
    every = await list_entries(database, acme.id, AuditFilter(), limit=100)
    assert text not in repr(every)


async def test_audited_endpoints_omit_the_query_of_their_url(
    database: Database, keys: SealingKeys, acme: Organization
) -> None:
    log = Log(database, acme.id)
    await log.new()
    url = f"{URL}?token=s3cret"
    told = await log.tells(add(database, keys, url), "webhook.added", URL)
    (endpoint,) = await list_endpoints(database, "acme")
    this = {"endpoint": endpoint.id}
    assert told == {**this, "events": []}
    named = (database, "acme", endpoint.id)
    await log.tells_nothing(enable_endpoint(*named))
    assert await log.tells(disable_endpoint(*named), "webhook.disabled", URL) == this
    await log.tells_nothing(disable_endpoint(*named))
    assert await log.tells(enable_endpoint(*named), "webhook.enabled", URL) == this
    rotating = rotate_secret(database, keys, "acme", endpoint.id, 3)
    told = await log.tells(rotating, "webhook.secret_rotated", URL)
    assert told == {**this, "overlap_hours": 3}
    assert await log.tells(promote_secret(*named), "webhook.secret_promoted", URL) == this
    await log.refuses(promote_secret(*named), "no_pending_secret")
    assert await log.tells(remove_endpoint(*named), "webhook.removed", URL) == this
    await log.refuses(remove_endpoint(*named), "endpoint_not_found")
    await log.refuses(add(database, keys, "https://10.0.0.1/"), "blocked_address")


async def test_the_same_change_made_twice_concurrently_is_audited_once(
    database: Database, keys: SealingKeys, acme: Organization
) -> None:
    endpoint = (await add(database, keys)).endpoint
    await rotate_secret(database, keys, "acme", endpoint.id)
    key = (await create_key(database, "acme")).record
    log = Log(database, acme.id)
    await log.new()
    results = await asyncio.gather(
        *(promote_secret(database, "acme", endpoint.id) for _ in range(4)),
        *(revoke_key(database, "acme", key.id) for _ in range(4)),
        *(set_plan(database, PLANS, "acme", "pro") for _ in range(4)),
        return_exceptions=True,
    )
    problems = [one for one in results if isinstance(one, Exception)]
    assert {getattr(one, "code", one) for one in problems} <= {"no_pending_secret"}
    assert sorted(one.action for one in await log.new()) == [
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
    (one,) = await harness.claim()
    with acting_as(ADA):
        await harness.record((one, attempt(410)))
    (told,) = await Log(database, "org_a").new()
    assert (told.actor_kind, told.actor, told.action) == (
        SERVICE.kind,
        SERVICE.name,
        "webhook.disabled",
    )
    assert told.target == f"https://receiver.example/{endpoint_id}"
    assert told.details == {"endpoint": endpoint_id, "reason": "gone"}


async def test_redeliveries_are_audited_with_their_number(database: Database) -> None:
    harness = DeliveryHarness(database)
    await harness.organization("org_a")
    endpoint_id = await harness.endpoint("org_a")
    for number in range(3):
        await harness.event("org_a", f"job_{number}")
    taken = await harness.claim()
    log = Log(database, "org_a")
    await log.refuses(redeliver(database, known("org_a"), taken[0].id), "delivery_in_progress")
    for each in taken:
        await harness.record((each, attempt(200)))
    address = f"https://receiver.example/{endpoint_id}"
    redelivering = redeliver(database, known("org_a"), taken[0].id)
    told = await log.tells(redelivering, "webhook.redelivered", address)
    assert told == {"delivery": taken[0].id, "count": 1}

    await log.tells_nothing(redeliver_failed(database, "org_a", 0))
    await database.transact(_execute, "UPDATE deliveries SET status = 'failed'")
    told = await log.tells(
        redeliver_failed(database, "org_a", 0), "webhook.redelivered", "all endpoints"
    )
    assert told == {"failed_since": iso_utc(0), "count": 3}
    await database.transact(_execute, "UPDATE deliveries SET status = 'failed'")
    again = redeliver_failed(database, "org_a", 0, endpoint_id)
    assert (await log.tells(again, "webhook.redelivered", address))["count"] == 3
    await database.transact(_execute, "UPDATE deliveries SET status = 'failed'")
    await harness.change_endpoint(endpoint_id, disabled_at=1, disabled_reason="gone")
    await log.tells_nothing(redeliver_failed(database, "org_a", 0))


async def test_a_ping_is_audited_with_its_outcome(
    database: Database, keys: SealingKeys, acme: Organization, tmp_path: Path
) -> None:
    settings = load({}, data_dir=str(tmp_path))
    allowed = effective_allow_list(settings, is_laptop=True)
    log = Log(database, acme.id)
    with receiver(lambda _: 500) as receiving:
        added = await add_endpoint(database, keys, "acme", receiving.url, allowed=allowed)
        await log.new()
        pinging = send_ping(database, keys, settings, added.endpoint.id, allowed)
        told = await log.tells(pinging, "webhook.tested", receiving.url)
    assert (told["endpoint"], told["succeeded"]) == (added.endpoint.id, False)
    await log.refuses(
        send_ping(database, keys, settings, "whk_none", allowed), "endpoint_not_found"
    )


async def test_changes_of_a_repository_are_audited(
    database: Database, acme: Organization, tmp_path: Path
) -> None:
    settings = load({}, data_dir=str(tmp_path / "data"))
    source = str(make_repository(tmp_path / "shop"))
    log = Log(database, acme.id)
    await log.new()
    connecting = connect_repository(database, settings, "acme", source)
    assert await log.tells(connecting, "repo.connected", "acme/shop") == {}
    await log.refuses(connect_repository(database, settings, "acme", source), "name_taken")
    pattern = {"pattern": "CODEOWNERS"}
    lifting = remove_protection(database, *HERE, "CODEOWNERS")
    assert await log.tells(lifting, "repo.path_lifted", "acme/shop") == pattern
    await log.tells_nothing(remove_protection(database, *HERE, "CODEOWNERS"))
    protecting = restore_protection(database, *HERE, "CODEOWNERS")
    assert await log.tells(protecting, "repo.path_protected", "acme/shop") == pattern
    await log.refuses(restore_protection(database, *HERE, "CODEOWNERS"), "not_lifted")

    await log.refuses(disconnect_repository(database, *HERE, also=_fail), "stopped")
    assert (await find_repo(database, acme.id, "acme/shop")).full_name == "acme/shop"

    async def disconnecting() -> None:
        both = (disconnect_repository(database, *HERE, also=_nothing) for _ in range(2))
        await asyncio.gather(*both, return_exceptions=True)

    assert await log.tells(disconnecting(), "repo.disconnected", "acme/shop") == {}
    await log.refuses(disconnect_repository(database, *HERE, also=_nothing), "repo_not_connected")


@pytest.fixture
async def platform(database: Database, tmp_path: Path) -> Platform:
    return await make_platform(database, tmp_path)


async def test_audited_pull_requests_name_who_ended_them(platform: Platform) -> None:
    db = platform.db
    log = Log(db, platform.organization.id)
    await log.new()
    await platform.open_pull("agentjobs/one", {"a": "1"}, draft=True)
    await platform.open_pull("agentjobs/two", {"b": "2"})
    await log.refuses(ready_pull(db, *HERE, 1, also=_fail), "stopped")
    assert (await get_pull(db, *HERE, 1)).draft
    await log.refuses(merge_pull(db, platform.settings, *HERE, 1), "pull_is_draft")
    assert await log.tells(ready_pull(db, *HERE, 1), "pull.ready", "acme/shop#1") == {}
    await log.tells_nothing(ready_pull(db, *HERE, 1))
    merging = merge_pull(db, platform.settings, *HERE, 1)
    assert await log.tells(merging, "pull.merged", "acme/shop#1") == {}
    assert (await get_pull(db, *HERE, 1)).ended_by == ADA.name
    assert (await get_pull(db, *HERE, 2)).ended_by is None
    assert await log.tells(close_pull(db, *HERE, 2), "pull.closed", "acme/shop#2") == {}
    assert (await get_pull(db, *HERE, 2)).ended_by == ADA.name
    await log.refuses(close_pull(db, *HERE, 2), "pull_not_open")


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

    named = (database, "acme", endpoint.id)
    for doing in (
        create_organization(database, PLANS, "new", "free"),
        set_plan(database, PLANS, "acme", "pro"),
        set_budget(database, "acme", daily="5"),
        create_key(database, "acme"),
        revoke_key(database, "acme", key.id),
        set_secret(database, keys, "acme", "NEW", "value"),
        remove_secret(database, "acme", "KEPT"),
        add(database, keys, URL + "/new"),
        disable_endpoint(*named),
        promote_secret(*named),
        remove_endpoint(*named),
        connect_repository(
            database, platform.settings, "acme", str(make_repository(tmp_path / "new"))
        ),
        disconnect_repository(database, *HERE, also=_nothing),
        remove_protection(database, *HERE, "CODEOWNERS"),
        close_pull(database, *HERE, 1),
        ready_pull(database, *HERE, 1),
    ):
        with pytest.raises(StoreError):
            await doing

    assert [one.name for one in await list_organizations(database)] == ["acme"]
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
        wanted: AuditFilter, limit: int = 100, before: str | None = None
    ) -> list[str]:
        found = await list_entries(database, acme.id, wanted, limit=limit, before=before)
        return [one.target for one in found]

    assert await targets(AuditFilter(action="secret")) == ["S2", "S1", "S0"]
    assert await targets(AuditFilter(action="secret.set", actor="user1")) == ["S1"]
    every = await list_entries(database, acme.id, AuditFilter(), limit=100)
    assert [one.target for one in every][-1] == "acme"
    assert len(every) == 7
    page = await targets(AuditFilter(action="secret"), 1, before=every[1].id)
    assert page == ["S1"]
    assert await targets(AuditFilter(since=every[0].at + 60_000)) == []
    assert await targets(AuditFilter(until=every[-1].at - 60_000)) == []
    assert len(await targets(AuditFilter(since=every[-1].at, until=every[0].at + 1))) == 7
    theirs = await list_entries(database, other.id, AuditFilter(), limit=100)
    assert [one.target for one in theirs] == ["THEIRS", "other"]


async def _execute(tx: Transaction, sql: str) -> None:
    await tx.execute(sql)


async def _nothing(tx: Transaction, what: object) -> None:
    pass


async def _fail(tx: Transaction, what: object) -> None:
    raise Problem("stopped", "Try again.")


async def test_entries_of_a_user_are_found_by_email_and_id_regardless_of_names(
    database: Database, acme: Organization
) -> None:
    ada = await add_user(database, acme.id, "ada@example.com", "member", name="Ada")
    eve = await add_user(database, acme.id, "eve@example.com", "member", name="Eve")
    # Eve calls herself Ada; a key has no address, and nobody's identifier is a person's by chance.
    for actor in (
        Actor("user", "Ada", ada.id),
        Actor("user", "Ada", eve.id),
        Actor("user", "Eve", eve.id),
        Actor("key", "Ada", ada.id),
        Actor("operator", "Ada"),
    ):
        with acting_as(actor):
            told = entry("secret.set", actor.kind)
        await database.transact(write, acme.id, told)

    async def found(**wanted: str) -> list[tuple[str, str | None]]:
        by = AuditFilter(action="secret.set", **wanted)
        entries = await list_entries(database, acme.id, by, limit=9)
        return [(each.actor_kind, each.actor_email) for each in reversed(entries)]

    eves, adas = ("user", eve.email), ("user", ada.email)
    assert await found() == [adas, eves, eves, ("key", None), ("operator", None)]
    assert await found(actor="Ada") == [adas, eves, ("key", None), ("operator", None)]
    assert await found(actor=" EVE@example.com") == [eves, eves]
    assert await found(actor_id=eve.id) == [eves, eves]
    assert await found(actor_id=eve.id, actor="Ada") == [eves]
    assert await found(actor_id="usr_0") == []
