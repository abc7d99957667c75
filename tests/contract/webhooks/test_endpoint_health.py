"""What waits to be sent again to each endpoint, on both stores."""

import pytest

from agentjobs.identifiers import new_id
from agentjobs.store.database import Database
from agentjobs.webhooks.health import Retries, load_retries
from tests.support.deliveries import DeliveryHarness, attempt


@pytest.fixture
async def harness(database: Database) -> DeliveryHarness:
    harness = DeliveryHarness(database)
    await harness.organization("org_a")
    return harness


async def test_retries_are_counted_for_each_endpoint_with_the_time_of_the_next(
    harness: DeliveryHarness,
) -> None:
    failing, healthy = await harness.endpoint("org_a"), await harness.endpoint("org_a")
    for _ in range(3):
        await harness.event("org_a", new_id("job"))
    claimed = await harness.claim()
    assert await load_retries(harness.db, "org_a") == {}
    responses = {failing: attempt(500), healthy: attempt(204)}
    await harness.record(*((each, responses[each.endpoint_id]) for each in claimed))
    failed = [each for each in claimed if each.endpoint_id == failing]
    due = [(await harness.row(each.id))["due_at"] for each in failed]
    assert await load_retries(harness.db, "org_a") == {failing: Retries(3, min(due))}
    assert await load_retries(harness.db, "org_b") == {}
    await harness.change_endpoint(failing, disabled_at=1)
    assert await load_retries(harness.db, "org_a") == {}
