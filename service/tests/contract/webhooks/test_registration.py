"""Changing endpoints, on both stores."""

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentjobs.organizations.audit import Actor, AuditFilter, acting_as, list_entries
from agentjobs.organizations.organizations import create_organization, find_organization
from agentjobs.organizations.plans import Plans
from agentjobs.organizations.sealing import SealingKeys
from agentjobs.store.database import Database, Transaction
from agentjobs.webhooks.endpoints import Endpoint, disable, find_endpoint, remove_endpoint
from agentjobs.webhooks.registration import add_endpoint, update_endpoint
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings.tables import DEFAULT_PLANS

URL = "https://hooks.example.com/agentjobs"
OTHER_URL = "https://elsewhere.example.com/hook"
ADA = Actor("user", "ada@example.com", "usr_1", "203.0.113.9")


def public(_: str) -> Sequence[str]:
    return ["93.184.215.14"]


def unknown(_: str) -> Sequence[str]:
    raise OSError("no such name")


class EndpointHarness:
    """The endpoints of `acme`, changed by Ada."""

    def __init__(self, db: Database, keys: SealingKeys) -> None:
        self.db = db
        self._keys = keys

    async def add(self, url: str = URL) -> Endpoint:
        added = await add_endpoint(
            self.db,
            self._keys,
            "acme",
            url,
            description="The bot",
            events=["job.failed"],
            allowed=AllowList(),
            lookup=public,
        )
        return added.endpoint

    async def edit(self, endpoint: str, **changes: object) -> tuple[Endpoint, str | None]:
        how = {"organization": "acme", "lookup": public, **changes}
        with acting_as(ADA):
            return await update_endpoint(
                self.db,
                endpoint_id=endpoint,
                allowed=AllowList(),
                **how,  # type: ignore[arg-type] # varies by test
            )

    async def audited_changes(self) -> list[tuple[str, str, dict[str, object]]]:
        """Returns the audit records of changes, newest first."""
        owner = await find_organization(self.db, "acme")
        filters = AuditFilter(action="webhook.changed")
        records = await list_entries(self.db, owner.id, filters, limit=100)
        return [(record.actor, record.target, record.details) for record in records]

    async def set(self, sql: str) -> None:
        await self.db.transact(_execute, sql)


@pytest.fixture
async def harness(database: Database, tmp_path: Path) -> EndpointHarness:
    for name in ("acme", "other"):
        await create_organization(database, Plans(DEFAULT_PLANS), name, "free")
    keys = SealingKeys([base64.b64encode(b"k" * 32).decode()], tmp_path / "encryption.key")
    return EndpointHarness(database, keys)


async def test_only_the_given_values_change(harness: EndpointHarness) -> None:
    endpoint = await harness.add()
    described, warning = await harness.edit(endpoint.id, description="")
    assert (described.description, described.events, described.url) == ("", ("job.failed",), URL)
    assert warning is None
    chosen, _ = await harness.edit(URL, events=["job.failed", "job.queued", "job.queued"])
    assert chosen.events == ("job.queued", "job.failed")
    everything, _ = await harness.edit(URL, events=[])
    assert everything.events == ()
    moved, warning = await harness.edit(endpoint.id, url=OTHER_URL, description="Moved")
    assert warning is None
    assert (moved.url, moved.description, moved.id) == (OTHER_URL, "Moved", endpoint.id)
    assert await find_endpoint(harness.db, "acme", endpoint.id) == moved
    this = {"endpoint": endpoint.id}
    assert await harness.audited_changes() == [
        (
            ADA.name,
            OTHER_URL,
            {**this, "what": ["url", "description"], "former_url": URL},
        ),
        (ADA.name, URL, {**this, "what": ["events"]}),
        (ADA.name, URL, {**this, "what": ["events"]}),
        (ADA.name, URL, {**this, "what": ["description"]}),
    ]


async def test_unchanged_values_cause_no_change_and_no_lookup(harness: EndpointHarness) -> None:
    endpoint = await harness.add()
    same, warning = await harness.edit(
        endpoint.id, url=URL, description="The bot", events=["job.failed"], lookup=unknown
    )
    assert (same, warning) == (endpoint, None)
    assert await harness.edit(endpoint.id) == (endpoint, None)
    assert await harness.audited_changes() == []


async def test_a_new_url_is_checked_like_that_of_a_new_endpoint(harness: EndpointHarness) -> None:
    endpoint = await harness.add()
    for changes, code in (
        ({"url": "https://10.0.0.1/"}, "blocked_address"),
        ({"url": "http://hooks.example.com/"}, "blocked_address"),
        ({"url": OTHER_URL, "lookup": lambda _: ["127.0.0.1"]}, "blocked_address"),
        ({"url": ""}, "invalid_url"),
        ({"url": "https://a:b@hooks.example.com/"}, "invalid_url"),
        ({"url": OTHER_URL, "description": "two\nlines"}, "invalid_description"),
        ({"url": OTHER_URL, "events": ["ping"]}, "unknown_event"),
        ({"url": OTHER_URL, "organization": "other"}, "endpoint_not_found"),
    ):
        with pytest.raises(Problem) as raised:
            await harness.edit(endpoint.id, **changes)  # type: ignore[arg-type] # values of several types
        assert raised.value.code == code
    assert await find_endpoint(harness.db, "acme", endpoint.id) == endpoint
    assert await harness.audited_changes() == []


async def test_an_unresolvable_or_duplicate_url_causes_a_warning(harness: EndpointHarness) -> None:
    first = await harness.add()
    second = await harness.add(OTHER_URL)
    _, warning = await harness.edit(first.id, url=OTHER_URL)
    assert f"{second.id} also uses this URL" in (warning or "")
    _, warning = await harness.edit(first.id, url="https://nobody.example.com/", lookup=unknown)
    assert "nobody.example.com does not resolve" in (warning or "")


async def test_failures_at_the_former_url_do_not_count_for_the_new_one(
    harness: EndpointHarness,
) -> None:
    endpoint = await harness.add()
    await harness.set("UPDATE webhook_endpoints SET failing_since = 5000, last_failure_at = 9000")
    described, _ = await harness.edit(endpoint.id, description="x")
    assert described.failing_since == 5_000
    moved, _ = await harness.edit(endpoint.id, url=OTHER_URL)
    assert (moved.failing_since, moved.last_failure_at) == (None, 9_000)


async def test_a_disabled_endpoint_stays_disabled_with_its_reason(harness: EndpointHarness) -> None:
    endpoint = await harness.add()
    await harness.set("UPDATE webhook_endpoints SET failing_since = 5000")
    await harness.db.transact(disable, endpoint.id, "failing", now_ms())
    moved, _ = await harness.edit(endpoint.id, url=OTHER_URL)
    assert (moved.disabled_reason, moved.failing_since) == ("failing", 5_000)


async def test_a_removed_endpoint_cannot_be_changed(harness: EndpointHarness) -> None:
    endpoint = await harness.add()
    await remove_endpoint(harness.db, "acme", endpoint.id)
    with pytest.raises(Problem) as raised:
        await harness.edit(endpoint.id, description="x")
    assert raised.value.code == "endpoint_not_found"


async def _execute(tx: Transaction, sql: str) -> None:
    await tx.execute(sql)
