"""Endpoints of organizations, on both stores."""

import asyncio
import base64
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentjobs.organizations.invitations import invite, revoke_invitation
from agentjobs.organizations.organizations import create_organization, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.organizations.users import ensure_administrator
from agentjobs.store.database import Database, Row, Transaction
from agentjobs.webhooks import queue
from agentjobs.webhooks.allowed_addresses import (
    configured_allow_list,
    load_allow_list,
    store_allow_list,
    with_loopback,
)
from agentjobs.webhooks.endpoints import (
    disable,
    disable_endpoint,
    disabled_text,
    enable_endpoint,
    find_endpoint,
    list_endpoints,
    remove_endpoint,
)
from agentjobs.webhooks.events import EVENTS
from agentjobs.webhooks.maintenance import run_maintenance
from agentjobs.webhooks.model import DisabledReason, SealedSecrets, Secrets
from agentjobs.webhooks.registration import CreatedEndpoint, add_endpoint
from agentjobs.webhooks.secret_rotation import promote_secret, rotate_secret
from agentjobs.webhooks.signing import SecretOpener
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import load
from agentjobs_runtime.settings.tables import DEFAULT_PLANS
from tests.support.deliveries import record_event
from tests.support.users import create_user

URL = "https://hooks.example.com/agentjobs"
HOUR_MS = 3_600_000


@pytest.fixture
def keys(tmp_path: Path) -> SealingKeys:
    return SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")


class EndpointHarness:
    """The endpoints of two organizations, with direct access to their rows."""

    def __init__(self, db: Database, keys: SealingKeys, organization_id: str) -> None:
        self.db = db
        self.keys = keys
        self.organization_id = organization_id

    async def add(
        self,
        url: str = URL,
        *,
        org: str = "acme",
        description: str = "",
        events: Sequence[str] = (),
    ) -> CreatedEndpoint:
        return await add_endpoint(
            self.db,
            self.keys,
            org,
            url,
            description=description,
            events=events,
            allowed=AllowList(),
            lookup=lambda _: ["93.184.215.14"],
        )

    async def row(self, endpoint_id: str) -> Row:
        row = await self.db.fetch_one(
            "SELECT * FROM webhook_endpoints WHERE id = :id", id=endpoint_id
        )
        assert row is not None
        return row

    async def secrets(self, endpoint_id: str, at_ms: int) -> Secrets:
        row = await self.row(endpoint_id)
        pending = row["pending_sealed"]
        sealed = SealedSecrets(
            bytes(row["sealed"]), None if pending is None else bytes(pending), row["promote_at"]
        )
        return SecretOpener(self.keys).open(self.organization_id, endpoint_id, sealed, at_ms)

    async def event(self, job_id: str, event: str = "job.queued") -> None:
        await self.db.transact(
            record_event,
            event,
            organization_id=self.organization_id,
            job_id=job_id,
            sequence=1,
            repo="acme/shop",
            pr_url=None,
            at_ms=now_ms(),
        )

    async def set(self, sql: str) -> None:
        await self.db.transact(_execute, sql)

    async def statuses(self) -> dict[str, str]:
        rows = await self.db.fetch_all("SELECT job_id, status FROM deliveries")
        return {row["job_id"]: row["status"] for row in rows}


@pytest.fixture
async def harness(database: Database, keys: SealingKeys) -> EndpointHarness:
    for name in ("acme", "other"):
        await create_organization(database, Plans(DEFAULT_PLANS), name, "free")
    return EndpointHarness(database, keys, (await find_organization(database, "acme")).id)


async def test_an_endpoint_is_listed_as_added_and_its_secret_is_stored_encrypted(harness):
    events = ["pr.review_requested", "job.failed", "job.failed"]
    added = await harness.add(description="The bot", events=events)
    assert added.warning is None
    assert added.endpoint.id.startswith("whk_")
    assert added.endpoint.events == ("job.failed", "pr.review_requested")
    assert added.endpoint.enabled
    assert await list_endpoints(harness.db, "acme") == [added.endpoint]
    assert await list_endpoints(harness.db, "other") == []
    assert await harness.secrets(added.endpoint.id, 0) == Secrets(added.secret)
    stored = dict(await harness.row(added.endpoint.id))
    assert added.secret not in repr(stored)
    assert added.secret.encode() not in bytes(stored["sealed"])


async def test_an_endpoint_is_found_by_id_or_exact_url_in_its_organization_only(harness):
    added = (await harness.add()).endpoint
    assert await find_endpoint(harness.db, "acme", added.id) == added
    assert await find_endpoint(harness.db, "acme", URL) == added
    for organization, text in (
        *(("other", added.id), ("other", URL)),
        *(("acme", URL + "/"), ("acme", ""), ("acme", "\0"), ("acme", "\udc80")),
    ):
        with pytest.raises(Problem, match=f"webhooks list --org {organization}") as problem:
            await find_endpoint(harness.db, organization, text)
        assert problem.value.code == "endpoint_not_found"


async def test_a_duplicate_url_causes_a_warning_and_then_requires_an_id(harness):
    first = await harness.add()
    second = await harness.add()
    assert first.endpoint.id in (second.warning or "")
    with pytest.raises(Problem, match=second.endpoint.id) as problem:
        await find_endpoint(harness.db, "acme", URL)
    assert problem.value.code == "endpoint_ambiguous"
    assert (await harness.add(org="other")).warning is None


async def test_an_invalid_endpoint_is_refused_and_not_stored(harness):
    invalid = [
        (harness.add(events=["job.queued", "job.done"]), "unknown_event"),
        (harness.add(events=["ping"]), "unknown_event"),
        (harness.add(description="x" * 201), "invalid_description"),
        (harness.add(description="two\nlines"), "invalid_description"),
        (harness.add(description="\ud800"), "invalid_description"),
        (harness.add("https://10.0.0.1/"), "blocked_address"),
        (harness.add("http://hooks.example.com/"), "blocked_address"),
        (harness.add("hooks.example.com"), "invalid_url"),
        (harness.add(org="nobody"), "organization_not_found"),
    ]
    for adding, code in invalid:
        with pytest.raises(Problem) as problem:
            await adding
        assert problem.value.code == code
    with pytest.raises(Problem, match=", ".join(EVENTS)):
        await harness.add(events=["job.done"])
    assert await list_endpoints(harness.db, "acme") == []


async def test_an_organization_has_at_most_a_hundred_endpoints_even_when_added_concurrently(
    harness,
):
    for number in range(98):
        await harness.add(f"{URL}/{number}")
    adding = [harness.add(f"{URL}/{number}") for number in range(98, 104)]
    results = await asyncio.gather(*adding, return_exceptions=True)
    problems = [result for result in results if isinstance(result, Problem)]
    assert [problem.code for problem in problems] == ["too_many_endpoints"] * 4
    every = await list_endpoints(harness.db, "acme")
    assert len(every) == 100
    assert (await harness.add(org="other")).endpoint.enabled
    await remove_endpoint(harness.db, "acme", every[0].id)
    assert (await harness.add()).endpoint.enabled


async def test_both_secrets_sign_during_the_overlap(harness):
    endpoint, old, _ = await harness.add()
    before = now_ms()
    rotated, new = await rotate_secret(harness.db, harness.keys, "acme", URL, 2)
    assert rotated.has_pending_secret
    assert before + 2 * HOUR_MS <= (rotated.promote_at or 0) < now_ms() + 3 * HOUR_MS
    assert await find_endpoint(harness.db, "acme", URL) == rotated
    assert await harness.secrets(endpoint.id, before) == Secrets(old, new)
    assert await harness.secrets(endpoint.id, now_ms() + 2 * HOUR_MS) == Secrets(new)


async def test_an_overlap_of_zero_replaces_the_secret_at_once(harness):
    endpoint = (await harness.add()).endpoint
    await rotate_secret(harness.db, harness.keys, "acme", URL)
    rotated, new = await rotate_secret(harness.db, harness.keys, "acme", URL, 0)
    assert not rotated.has_pending_secret
    assert await harness.secrets(endpoint.id, now_ms()) == Secrets(new)
    await run_maintenance(harness.db)
    row = await harness.row(endpoint.id)
    assert (row["pending_sealed"], row["pending_key_id"], row["promote_at"]) == (None, None, None)
    assert await harness.secrets(endpoint.id, now_ms()) == Secrets(new)


async def test_an_overlap_is_at_most_a_week(harness):
    await harness.add()
    for hours in (-1, 169):
        with pytest.raises(Problem) as problem:
            await rotate_secret(harness.db, harness.keys, "acme", URL, hours)
        assert problem.value.code == "invalid_overlap"


async def test_another_rotation_replaces_only_the_pending_secret(harness):
    endpoint, old, _ = await harness.add()
    await rotate_secret(harness.db, harness.keys, "acme", URL)
    _, newest = await rotate_secret(harness.db, harness.keys, "acme", URL)
    assert await harness.secrets(endpoint.id, now_ms()) == Secrets(old, newest)


async def test_a_due_pending_secret_is_the_old_one_of_the_next_rotation(harness):
    endpoint = (await harness.add()).endpoint
    _, second = await rotate_secret(harness.db, harness.keys, "acme", URL, 1)
    await harness.db.transact(_make_promotion_due)
    assert not (await find_endpoint(harness.db, "acme", URL)).has_pending_secret
    with pytest.raises(Problem) as problem:
        await promote_secret(harness.db, "acme", URL)
    assert problem.value.code == "no_pending_secret"
    rotated, third = await rotate_secret(harness.db, harness.keys, "acme", URL, 1)
    assert rotated.promote_at > now_ms() + HOUR_MS - 60_000
    assert await harness.secrets(endpoint.id, now_ms()) == Secrets(second, third)


async def _make_promotion_due(tx):
    await tx.execute("UPDATE webhook_endpoints SET promote_at = 1")


async def test_a_secret_can_be_promoted_once(harness):
    endpoint = (await harness.add()).endpoint
    _, new = await rotate_secret(harness.db, harness.keys, "acme", URL)
    promoted = await promote_secret(harness.db, "acme", URL)
    assert not promoted.has_pending_secret
    assert await harness.secrets(endpoint.id, now_ms()) == Secrets(new)
    with pytest.raises(Problem, match="rotate-secret") as problem:
        await promote_secret(harness.db, "acme", URL)
    assert problem.value.code == "no_pending_secret"


async def test_disabling_fails_waiting_deliveries_of_this_endpoint_only(harness):
    endpoint = (await harness.add()).endpoint
    for job_id in ("first", "retry", "sending", "done"):
        await harness.event(job_id)
    await harness.set("UPDATE deliveries SET attempts = 1 WHERE job_id = 'retry'")
    await harness.set("UPDATE deliveries SET lease_owner = 'snd_1' WHERE job_id = 'sending'")
    await harness.set("UPDATE deliveries SET status = 'delivered' WHERE job_id = 'done'")
    bystander = (await harness.add(URL + "/2", events=["job.failed"])).endpoint
    await harness.event("elsewhere", "job.failed")
    await harness.set(
        f"DELETE FROM deliveries WHERE endpoint_id = '{endpoint.id}' AND job_id = 'elsewhere'"
    )

    disabled = await disable_endpoint(harness.db, "acme", endpoint.id)
    assert (disabled.enabled, disabled.disabled_reason) == (False, "by_hand")
    assert await harness.statuses() == {
        "first": "failed",
        "retry": "failed",
        "sending": "pending",
        "done": "delivered",
        "elsewhere": "pending",
    }
    await harness.event("later")
    assert "later" not in await harness.statuses()
    assert (await find_endpoint(harness.db, "acme", bystander.id)).enabled


async def test_disabling_fails_a_long_queue_completely(harness, monkeypatch):
    monkeypatch.setattr(queue, "FAIL_BATCH", 3)
    endpoint = (await harness.add()).endpoint
    for number in range(10):
        await harness.event(f"job_{number}")
    await disable_endpoint(harness.db, "acme", endpoint.id)
    assert sorted((await harness.statuses()).values()) == ["failed"] * 3 + ["pending"] * 7
    for _ in range(3):
        await run_maintenance(harness.db)
    assert set((await harness.statuses()).values()) == {"failed"}


async def test_a_disabled_endpoint_keeps_its_first_reason(harness):
    endpoint = (await harness.add()).endpoint
    assert await harness.db.transact(disable, endpoint.id, "gone", 1_000)
    assert not await harness.db.transact(disable, endpoint.id, "failing", 2_000)
    repeated = await disable_endpoint(harness.db, "acme", endpoint.id)
    assert (repeated.disabled_reason, repeated.disabled_at) == ("gone", 1_000)
    assert not await harness.db.transact(disable, "whk_none", "gone", 1_000)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("gone", "the receiver responded with 410 Gone at 1970-01-02T00:00:00.000Z"),
        ("failing", "every delivery has failed since 1970-01-01T00:00:05.000Z"),
        ("by_hand", "by an admin at 1970-01-02T00:00:00.000Z"),
    ],
)
async def test_the_reason_is_shown_with_the_command_to_enable(
    harness, reason: DisabledReason, message: str
):
    endpoint = (await harness.add()).endpoint
    assert disabled_text(endpoint) is None
    await harness.set("UPDATE webhook_endpoints SET failing_since = 5000, last_failure_at = 9000")
    await harness.db.transact(disable, endpoint.id, reason, 86_400_000)
    disabled = await find_endpoint(harness.db, "acme", endpoint.id)
    advice = f"enable it with: agentjobs webhooks enable {endpoint.id} --org acme"
    assert disabled_text(disabled) == f"{message}; {advice}"

    enabled = await enable_endpoint(harness.db, "acme", endpoint.id)
    assert enabled.enabled
    assert (enabled.disabled_reason, enabled.failing_since) == (None, None)
    assert enabled.last_failure_at == 9_000
    assert await enable_endpoint(harness.db, "acme", endpoint.id) == enabled


async def test_removing_an_endpoint_erases_its_secrets_and_keeps_its_deliveries(harness):
    endpoint = (await harness.add()).endpoint
    await rotate_secret(harness.db, harness.keys, "acme", URL)
    await harness.event("waiting")
    removed = await remove_endpoint(harness.db, "acme", URL)
    assert removed.id == endpoint.id
    assert await list_endpoints(harness.db, "acme") == []
    row = await harness.row(endpoint.id)
    assert (bytes(row["sealed"]), row["pending_sealed"], row["promote_at"]) == (b"", None, None)
    assert await harness.statuses() == {"waiting": "failed"}
    assert not await harness.db.transact(disable, endpoint.id, "gone", now_ms())
    for verb in (remove_endpoint, enable_endpoint, disable_endpoint, promote_secret):
        with pytest.raises(Problem) as problem:
            await verb(harness.db, "acme", endpoint.id)
        assert problem.value.code == "endpoint_not_found"


async def test_another_organization_cannot_change_an_endpoint(harness):
    endpoint = (await harness.add()).endpoint
    for verb in (remove_endpoint, enable_endpoint, disable_endpoint, promote_secret):
        with pytest.raises(Problem) as problem:
            await verb(harness.db, "other", endpoint.id)
        assert problem.value.code == "endpoint_not_found"
    with pytest.raises(Problem):
        await rotate_secret(harness.db, harness.keys, "other", URL)
    assert await list_endpoints(harness.db, "acme") == [endpoint]


async def test_commands_use_the_allow_list_of_the_service_or_else_their_settings(harness, tmp_path):
    settings = load({"AGENTJOBS_WEBHOOKS_ALLOW": "10.0.0.0/8"}, data_dir=str(tmp_path))
    allowed = configured_allow_list(settings)
    other = load({}, data_dir=str(tmp_path))
    assert await load_allow_list(harness.db, settings) == allowed
    assert await load_allow_list(harness.db, other) == configured_allow_list(other)
    await store_allow_list(harness.db, allowed, loopback=False)
    assert await load_allow_list(harness.db, other) == allowed


@pytest.mark.parametrize("joins", ["user", "invitation"])
async def test_loopback_is_allowed_only_while_the_operator_is_alone(harness, tmp_path, joins):
    settings = load({}, data_dir=str(tmp_path))
    allowed = configured_allow_list(settings)
    await ensure_administrator(harness.db, "acme")
    await store_allow_list(harness.db, allowed, loopback=True)
    assert await load_allow_list(harness.db, settings) == with_loopback(allowed)

    organization = await find_organization(harness.db, "acme")
    if joins == "user":
        await create_user(harness.db, "eve@example.com")
        assert await load_allow_list(harness.db, settings) == allowed
        return
    invitation, _ = await invite(harness.db, organization.id, "eve@example.com", "viewer")
    assert await load_allow_list(harness.db, settings) == allowed
    await revoke_invitation(harness.db, organization.id, invitation.id)
    assert await load_allow_list(harness.db, settings) == with_loopback(allowed)


async def _execute(tx: Transaction, sql: str) -> None:
    await tx.execute(sql)
