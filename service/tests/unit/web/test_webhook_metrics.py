"""Metrics of webhooks: waiting deliveries, their age, and disabled endpoints."""

from pathlib import Path

import pytest

from agentjobs.store.database import Transaction
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import first_id_at
from agentjobs_runtime.settings import Settings
from service.tests.unit.web.service import Service
from service.tests.unit.web.test_health_and_metrics import TOKEN, UnreachableDatabase
from tests.support.deliveries import DeliveryHarness, attempt
from tests.support.promql import samples

WAITING = "agentjobs_webhook_deliveries_waiting"
OLDEST = "agentjobs_webhook_oldest_due_seconds"
ACTIVE = ("agentjobs_webhook_deliveries_active",)
ENDPOINTS = "agentjobs_webhook_endpoints"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=str(tmp_path), metrics_token="look-here")


@pytest.fixture
def deliveries(service: Service) -> DeliveryHarness:
    return DeliveryHarness(service.harness.db)


async def numbers(service: Service) -> dict[tuple[str, ...], float]:
    return samples((await service.get("/metrics", headers=TOKEN)).text)


async def test_without_any_endpoint_everything_is_zero(service: Service) -> None:
    metrics = await numbers(service)
    for lane in ("first", "retry"):
        assert (metrics[WAITING, lane], metrics[OLDEST, lane]) == (0, 0)
    assert metrics[ACTIVE] == 0
    assert {metrics[ENDPOINTS, state] for state in ("enabled", "by_hand", "gone", "failing")} == {0}


async def test_waiting_deliveries_are_counted_by_lane(
    service: Service, deliveries: DeliveryHarness
) -> None:
    await deliveries.endpoint(service.caller.organization_id)
    await service.create_job()
    (delivery,) = await deliveries.claim()
    await deliveries.record((delivery, attempt(500)))
    await service.create_job()
    await deliveries.claim()
    await service.create_job()
    metrics = await numbers(service)
    assert (metrics[WAITING, "first"], metrics[WAITING, "retry"], metrics[ACTIVE]) == (1, 1, 1)
    # Its retry is not due yet.
    assert metrics[OLDEST, "retry"] == 0


async def test_the_age_of_the_oldest_due_delivery_is_exported_by_lane(
    service: Service, deliveries: DeliveryHarness
) -> None:
    await deliveries.endpoint(service.caller.organization_id)
    for _ in range(2):
        await service.create_job()
    await service.harness.db.transact(_age, now_ms() - 90_000)
    metrics = await numbers(service)
    assert 90 <= metrics[OLDEST, "first"] < 600
    assert metrics[OLDEST, "retry"] == 0
    await deliveries.record(*((delivery, attempt(500)) for delivery in await deliveries.claim()))
    await service.harness.db.transact(_make_due, now_ms() - 30_000)
    metrics = await numbers(service)
    assert 30 <= metrics[OLDEST, "retry"] < 600
    assert metrics[OLDEST, "first"] == 0


async def test_the_age_follows_the_databases_clock(
    service: Service, deliveries: DeliveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deliveries.endpoint(service.caller.organization_id)
    await service.create_job()
    (delivery,) = await deliveries.claim()
    await deliveries.record((delivery, attempt(500)))
    database, later = service.harness.db, now_ms() + 3_600_000
    await database.transact(_make_due, later - 30_000)

    async def clock_ms(_: object) -> int:
        return later

    monkeypatch.setattr(type(database), "clock_ms", clock_ms)
    assert (await numbers(service))[OLDEST, "retry"] == 30


async def test_endpoints_are_counted_by_the_reason_they_are_disabled(
    service: Service, deliveries: DeliveryHarness
) -> None:
    for reason in (None, None, "by_hand", "gone", "failing", "failing"):
        endpoint_id = await deliveries.endpoint(service.caller.organization_id)
        if reason is not None:
            await deliveries.change_endpoint(endpoint_id, disabled_at=1, disabled_reason=reason)
    removed = await deliveries.endpoint(service.caller.organization_id)
    await deliveries.change_endpoint(removed, removed_at=1)
    metrics = await numbers(service)
    states = {"enabled": 2, "by_hand": 1, "gone": 1, "failing": 2}
    assert {state: metrics[ENDPOINTS, state] for state in states} == states
    for endpoint_id in [row["id"] for row in await _failing_endpoints(service)]:
        await deliveries.change_endpoint(endpoint_id, disabled_at=None, disabled_reason=None)
    metrics = await numbers(service)
    assert (metrics[ENDPOINTS, "enabled"], metrics[ENDPOINTS, "failing"]) == (4, 0)


async def test_an_unreachable_store_exports_no_outdated_values(
    service: Service, deliveries: DeliveryHarness
) -> None:
    await deliveries.endpoint(service.caller.organization_id)
    await service.create_job()
    assert (await numbers(service))[WAITING, "first"] == 1
    service.context.db = UnreachableDatabase()  # type: ignore[assignment]
    metrics = await numbers(service)
    assert metrics[("agentjobs_store_up",)] == 0
    assert not {name for name, *_ in metrics} & {WAITING, OLDEST, *ACTIVE, ENDPOINTS}


async def _failing_endpoints(service: Service) -> list[dict[str, str]]:
    rows = await service.harness.db.fetch_all(
        "SELECT id FROM webhook_endpoints WHERE disabled_reason = 'failing'"
    )
    return [{"id": row["id"]} for row in rows]


async def _age(tx: Transaction, at: int) -> None:
    await tx.execute(
        "UPDATE deliveries SET id = :id WHERE id = (SELECT MIN(id) FROM deliveries)",
        id=first_id_at("dlv", at),
    )


async def _make_due(tx: Transaction, at: int) -> None:
    await tx.execute("UPDATE deliveries SET due_at = :at WHERE attempts > 0", at=at)
