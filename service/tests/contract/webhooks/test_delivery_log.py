"""The delivery log: pages, filters, details and isolation of organizations, on both stores."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from agentjobs.store.database import Database
from agentjobs.webhooks.events import JOB_COMPLETED
from agentjobs.webhooks.log import (
    Delivery,
    DeliveryFilter,
    find_logged_endpoint,
    get_delivery,
    list_deliveries,
)
from agentjobs.webhooks.model import Attempt
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import first_id_at
from agentjobs_runtime.problems import Problem
from tests.support.deliveries import DeliveryHarness, attempt, organization_with_id

ALL = DeliveryFilter()


@pytest.fixture
async def harness(database: Database) -> DeliveryHarness:
    harness = DeliveryHarness(database)
    for name in ("org_a", "org_b"):
        await harness.organization(name)
    return harness


async def ids(
    harness: DeliveryHarness, filters: DeliveryFilter = ALL, owner: str = "org_a"
) -> list[str]:
    return [
        delivery.id for delivery in (await list_deliveries(harness.db, owner, filters)).deliveries
    ]


async def deliveries_in_each_state(harness: DeliveryHarness) -> dict[str, str]:
    """Returns the id of a delivery in each state, oldest first."""
    await harness.endpoint("org_a")
    for number in range(4):
        await harness.event("org_a", f"job_{number}")
    good, bad, retried, leased = await harness.claim()
    out_of_retries = replace(bad, failures=3)
    await harness.record(
        (good, attempt(200)), (out_of_retries, attempt(500)), (retried, attempt(500))
    )
    return {
        "delivered": good.id,
        "failed": bad.id,
        "retried": retried.id,
        "leased": leased.id,
    }


async def test_deliveries_are_listed_newest_first_with_their_attempts(
    harness: DeliveryHarness,
) -> None:
    endpoint_id = await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    await harness.event("org_a", "job_1", 2, JOB_COMPLETED)
    (first,) = await harness.claim()
    await harness.record((first, attempt(500)))
    waiting, tried = (await list_deliveries(harness.db, "org_a", ALL)).deliveries

    assert (tried.id, tried.event_id, tried.sequence) == (first.id, first.event_id, 1)
    assert (tried.job_id, tried.event, tried.status) == ("job_1", "job.queued", "pending")
    assert (tried.endpoint_id, tried.url) == (endpoint_id, first.url)
    assert tried.next_attempt_at is not None
    assert tried.next_attempt_at > now_ms()
    (summary,) = tried.attempts
    assert (summary.status_code, summary.error_class) == (500, "http_status")
    assert (summary.duration_ms, summary.address) == (7, "203.0.113.7:443")
    assert summary.error == "it did not go well"

    assert (waiting.event, waiting.sequence, waiting.attempts) == (JOB_COMPLETED, 2, ())


async def test_a_settled_delivery_has_no_next_attempt(harness: DeliveryHarness) -> None:
    delivery_ids = await deliveries_in_each_state(harness)
    page = await list_deliveries(harness.db, "org_a", ALL)
    times = {delivery.id: delivery.next_attempt_at for delivery in page.deliveries}
    assert (times[delivery_ids["delivered"]], times[delivery_ids["failed"]]) == (None, None)
    assert times[delivery_ids["retried"]] is not None
    assert times[delivery_ids["leased"]] is not None


async def test_each_filter_selects_its_deliveries(harness: DeliveryHarness) -> None:
    delivery_ids = await deliveries_in_each_state(harness)
    other = await harness.endpoint("org_a", events='["job.completed"]')
    await harness.event("org_a", "job_0", 2, JOB_COMPLETED)
    completed = [
        delivery_id
        for delivery_id in await ids(harness)
        if delivery_id not in delivery_ids.values()
    ]

    assert await ids(harness, DeliveryFilter(status="delivered")) == [delivery_ids["delivered"]]
    assert await ids(harness, DeliveryFilter(status="failed")) == [delivery_ids["failed"]]
    pending = await ids(harness, DeliveryFilter(status="pending"))
    assert pending == [*completed, delivery_ids["leased"], delivery_ids["retried"]]
    assert await ids(harness, DeliveryFilter(job_id="job_0")) == [
        *completed,
        delivery_ids["delivered"],
    ]
    of_job = DeliveryFilter(job_id="job_0", status="delivered")
    assert await ids(harness, of_job) == [delivery_ids["delivered"]]
    (other_delivery,) = await ids(harness, DeliveryFilter(endpoint_id=other))
    assert other_delivery in completed
    assert await ids(harness, DeliveryFilter(endpoint_id=other, job_id="job_0")) == [other_delivery]
    assert await ids(harness, DeliveryFilter(endpoint_id=other, status="failed")) == []
    assert await ids(harness, DeliveryFilter(job_id="job_none")) == []


async def test_since_selects_events_from_that_moment_on(harness: DeliveryHarness) -> None:
    delivery_ids = await deliveries_in_each_state(harness)
    row = await harness.row(delivery_ids["failed"])
    moment = row["created_at"]
    later = sorted(
        delivery_id
        for delivery_id in delivery_ids.values()
        if delivery_id >= first_id_at("dlv", moment)
    )
    assert delivery_ids["failed"] in later
    for filters in (
        DeliveryFilter(since_ms=moment),
        DeliveryFilter(since_ms=moment, endpoint_id=row["endpoint_id"]),
    ):
        assert sorted(await ids(harness, filters)) == later
    of_job = DeliveryFilter(since_ms=moment, job_id=row["job_id"])
    assert await ids(harness, of_job) == [delivery_ids["failed"]]
    assert await ids(harness, DeliveryFilter(since_ms=now_ms() + 60_000)) == []
    assert len(await ids(harness, DeliveryFilter(since_ms=0))) == 4


@pytest.mark.parametrize("by", ["organization", "endpoint", "job"])
async def test_pages_have_no_gaps_and_no_duplicates(harness: DeliveryHarness, by: str) -> None:
    endpoint_id = await harness.endpoint("org_a")
    for sequence in range(1, 8):
        await harness.event("org_a", "job_1", sequence)
    for status_code in (200, 500, 410):
        for claimed in (await harness.claim())[:1]:
            await harness.record((claimed, attempt(status_code)))
    filters = {
        "organization": ALL,
        "endpoint": DeliveryFilter(endpoint_id=endpoint_id),
        "job": DeliveryFilter(job_id="job_1"),
    }[by]
    everything = await ids(harness)
    pages = [page async for page in pages_of(harness, filters)]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [delivery.id for page in pages for delivery in page] == everything


async def pages_of(
    harness: DeliveryHarness, filters: DeliveryFilter
) -> AsyncIterator[list[Delivery]]:
    before = None
    while True:
        page = await list_deliveries(harness.db, "org_a", filters, limit=3, before=before)
        yield page.deliveries
        if not page.has_more:
            return
        before = page.deliveries[-1].id


async def test_an_exactly_full_last_page_has_no_next_page(harness: DeliveryHarness) -> None:
    await deliveries_in_each_state(harness)
    page = await list_deliveries(harness.db, "org_a", ALL, limit=4)
    assert (len(page.deliveries), page.has_more) == (4, False)
    assert (await list_deliveries(harness.db, "org_a", ALL, limit=3)).has_more


async def test_a_delivery_has_its_requests_and_responses(
    harness: DeliveryHarness,
) -> None:
    await harness.endpoint("org_a")
    await harness.event("org_a", "job_1")
    (claimed,) = await harness.claim()
    odd = Attempt(
        at=now_ms(),
        duration_ms=3,
        request_headers=(("Host", "receiver.example"), ("X-Service-Event", "job.queued")),
        status_code=500,
        response_headers=(("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X", 'quo"te é')),
        response_body=b"\xff\x00binary",
        error_class="http_status",
        error="status 500",
    )
    await harness.record((claimed, odd))
    (again,) = await harness.claim_retries(now=now_ms() + 60_000)
    await harness.record((again, attempt(200, at=odd.at + 6_000)))

    detail = await get_delivery(harness.db, organization_with_id("org_a"), claimed.id)
    assert detail.body == claimed.body
    assert detail.delivery.attempts[0] == odd
    assert [each.status_code for each in detail.delivery.attempts] == [500, 200]
    assert detail.delivery.status == "delivered"


async def test_deliveries_of_another_organization_are_not_visible(harness: DeliveryHarness) -> None:
    delivery_ids = await deliveries_in_each_state(harness)
    endpoint_id = (await harness.row(delivery_ids["failed"]))["endpoint_id"]
    for filters in (
        ALL,
        DeliveryFilter(job_id="job_0"),
        DeliveryFilter(endpoint_id=endpoint_id),
        DeliveryFilter(endpoint_id=endpoint_id, status="failed"),
    ):
        assert await ids(harness, filters, "org_b") == []
    texts = []
    for owner, delivery_id in (("org_b", delivery_ids["failed"]), ("org_a", "dlv_none")):
        with pytest.raises(Problem) as raised:
            await get_delivery(harness.db, organization_with_id(owner), delivery_id)
        assert raised.value.code == "delivery_not_found"
        assert f"`agentjobs webhooks deliveries --org {owner}`" in raised.value.message
        texts.append(raised.value.message.replace(delivery_id, "").replace(owner, ""))
    assert texts[0] == texts[1]
    with pytest.raises(Problem, match="webhooks list --org org_b"):
        await find_logged_endpoint(harness.db, organization_with_id("org_b"), endpoint_id)


async def test_a_removed_endpoint_can_still_filter_the_log(harness: DeliveryHarness) -> None:
    removed = await harness.endpoint("org_a")
    url = (await harness.endpoint_row(removed))["url"]
    await harness.change_endpoint(removed, removed_at=1)
    for name in (removed, url):
        assert (
            await find_logged_endpoint(harness.db, organization_with_id("org_a"), name) == removed
        )
    successor = await harness.endpoint("org_a")
    await harness.change_endpoint(successor, url=url)
    assert await find_logged_endpoint(harness.db, organization_with_id("org_a"), url) == successor
    assert await find_logged_endpoint(harness.db, organization_with_id("org_a"), removed) == removed


async def test_of_several_removed_endpoints_with_one_url_the_latest_is_used(
    harness: DeliveryHarness,
) -> None:
    both = [await harness.endpoint("org_a") for _ in range(2)]
    for endpoint_id in both:
        await harness.change_endpoint(endpoint_id, url="https://same.example/", removed_at=1)
    endpoint_id = await find_logged_endpoint(
        harness.db, organization_with_id("org_a"), "https://same.example/"
    )
    assert endpoint_id == both[1]


async def test_a_url_of_several_active_endpoints_is_ambiguous(harness: DeliveryHarness) -> None:
    both = [await harness.endpoint("org_a") for _ in range(2)]
    for endpoint_id in both:
        await harness.change_endpoint(endpoint_id, url="https://same.example/")
    with pytest.raises(Problem) as raised:
        await find_logged_endpoint(
            harness.db, organization_with_id("org_a"), "https://same.example/"
        )
    assert raised.value.code == "endpoint_ambiguous"
    assert all(endpoint_id in raised.value.message for endpoint_id in both)
    assert await find_logged_endpoint(harness.db, organization_with_id("org_a"), both[0]) == both[0]
