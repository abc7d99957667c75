"""What a page says of endpoints that went out of use by themselves, and to whom."""

import pytest

from agentjobs.clock import now_ms
from tests.delivery_world import Deliveries
from tests.unit.web.service import ORGANIZATION, Service

PULLS = f"/{ORGANIZATION}/{ORGANIZATION}/shop/pulls"


@pytest.fixture
def deliveries(service: Service) -> Deliveries:
    return Deliveries(service.world.db)


async def endpoint(service: Service, deliveries: Deliveries, reason: str) -> str:
    endpoint_id = await deliveries.endpoint(service.caller.organization_id)
    await deliveries.change_endpoint(
        endpoint_id,
        url="https://receiver.example/<script>alert(1)</script>",
        disabled_at=now_ms(),
        disabled_reason=reason,
        failing_since=now_ms() - 86_400_000,
    )
    return endpoint_id


@pytest.mark.parametrize(
    ("reason", "words"), [("gone", "410 Gone"), ("failing", "every delivery failed since")]
)
async def test_an_endpoint_that_was_disabled_by_itself_is_told_with_reason_and_remedy(
    service: Service, deliveries: Deliveries, reason: str, words: str
) -> None:
    endpoint_id = await endpoint(service, deliveries, reason)
    page = (await service.get(PULLS)).text
    assert page.count('class="notice"') == 1
    assert words in page
    assert f"agentjobs webhooks enable {endpoint_id} --org {ORGANIZATION}" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>" not in page


async def test_nothing_is_told_of_one_that_is_enabled_or_was_disabled_by_hand(
    service: Service, deliveries: Deliveries
) -> None:
    await deliveries.endpoint(service.caller.organization_id)
    await endpoint(service, deliveries, "by_hand")
    removed = await endpoint(service, deliveries, "gone")
    await deliveries.change_endpoint(removed, removed_at=now_ms())
    assert 'class="notice"' not in (await service.get(PULLS)).text


async def test_another_organization_is_told_nothing(
    service: Service, deliveries: Deliveries
) -> None:
    await endpoint(service, deliveries, "gone")
    await service.world.organization("other")
    page = await service.get("/other/other/shop/pulls", headers=await service.key("other"))
    assert page.status_code == 200
    assert 'class="notice"' not in page.text
