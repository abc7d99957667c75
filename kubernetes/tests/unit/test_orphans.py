"""Which pods nobody uses any more."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentjobs_kubernetes import orphans
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.labels import WORKER
from agentjobs_kubernetes.orphans import is_orphan, sweep_regularly
from agentjobs_kubernetes.pod_status import PodState

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
SETTINGS = ClusterSettings(worker="mine", image="i", pending_seconds=600)
OLD, RECENT = NOW - timedelta(hours=2), NOW - timedelta(minutes=5)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"worker": "mine", "phase": "Running", "ip": "10.0.0.1"}, True),
        ({"worker": "mine", "name": "used", "phase": "Running", "ip": "10.0.0.1"}, False),
        ({"worker": "mine", "name": "used", "phase": "Failed", "ended_at": OLD}, False),
        ({"worker": "other", "phase": "Running", "ip": "10.0.0.1"}, False),
        ({"worker": "other", "phase": "Failed", "ended_at": OLD}, True),
        ({"worker": "other", "phase": "Succeeded", "ended_at": RECENT}, False),
        ({"worker": "other", "phase": "Pending"}, True),
        ({"worker": "other", "phase": "Pending", "created_at": RECENT}, False),
        # It may be about to start; the supervisor ends by itself if its worker is dead.
        ({"worker": "other", "phase": "Pending", "ip": "10.0.0.1"}, False),
        ({"worker": "other", "phase": "Failed", "created_at": None}, False),
    ],
)
def test_only_what_no_living_worker_uses_is_an_orphan(pod: dict[str, Any], expected: bool) -> None:
    values = {"name": "p", "created_at": OLD} | pod
    state = PodState(labels={WORKER: values.pop("worker")}, **values)
    assert is_orphan(state, SETTINGS, {"used"}, NOW) is expected


async def test_an_answer_that_nobody_expects_does_not_end_the_sweeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    third, calls = asyncio.Event(), 0

    async def delete_orphans(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            third.set()
        raise TypeError("can't subtract offset-naive and offset-aware datetimes")

    monkeypatch.setattr(orphans, "delete_orphans", delete_orphans)
    monkeypatch.setattr(orphans, "_SWEEP_SECONDS", 0)
    cluster: Any = None
    sweeping = asyncio.create_task(sweep_regularly(cluster, set))
    await asyncio.wait_for(third.wait(), 60)
    sweeping.cancel()
    await asyncio.wait({sweeping})
