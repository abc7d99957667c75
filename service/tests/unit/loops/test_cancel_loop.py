"""How often a worker polls for cancels that no notification told it about."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.store.changes import Changes, Signal
from agentjobs_worker.loops.cancel_loop import CancelLoop


class _Ended(Exception):
    pass


@pytest.mark.parametrize(
    ("processes", "is_live", "seconds"),
    [(1, True, 0.5), (8, True, 0.5), (50, False, 0.5), (50, True, 2.0)],
)
async def test_a_large_fleet_polls_less_often_while_it_is_notified(
    monkeypatch: pytest.MonkeyPatch, processes: int, is_live: bool, seconds: float
) -> None:
    waits: list[float | None] = []

    async def wait(_: Signal, timeout_seconds: float | None = None) -> bool:
        waits.append(timeout_seconds)
        raise _Ended

    monkeypatch.setattr(Signal, "wait", wait)
    changes = Changes()
    changes.processes, changes.live = processes, is_live
    link: Any = SimpleNamespace(changes=changes)
    jobs: Any = SimpleNamespace(has_jobs=asyncio.Event())
    jobs.has_jobs.set()
    with pytest.raises(_Ended):
        await CancelLoop(link, jobs).run()
    assert waits == [pytest.approx(seconds, rel=0.25)]
