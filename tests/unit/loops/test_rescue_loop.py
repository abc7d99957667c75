"""A process that was cut off from the database gives others time to return."""

import asyncio
import contextlib
from typing import Any

import pytest

from agentjobs.loops import rescue_loop
from agentjobs.settings import Settings
from agentjobs.store.changes import Changes


class Database:
    def __init__(self) -> None:
        self.changes = Changes()
        self.calls: list[str] = []
        self.rescued = asyncio.Event()

    async def ping(self) -> None:
        self.calls.append("ping")

    async def fetch_one(self, *_: object, **__: object) -> None:
        self.calls.append("rescue")
        self.rescued.set()


@pytest.mark.parametrize(("seconds", "calls"), [(-1.0, ["ping", "rescue"]), (60.0, ["rescue"])])
async def test_rescue_waits_after_an_outage_only(
    monkeypatch: pytest.MonkeyPatch, seconds: float, calls: list[str]
) -> None:
    monkeypatch.setattr(rescue_loop, "_CUT_OFF_SECONDS", seconds)
    monkeypatch.setattr(rescue_loop, "_RECONNECT_SECONDS", 0)
    db: Any = Database()
    task = asyncio.create_task(rescue_loop.rescue_loop(db, Settings(data_dir="/")).run())
    await db.rescued.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert db.calls == calls
