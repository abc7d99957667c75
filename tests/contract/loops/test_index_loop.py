"""The process that the index loop keeps ready."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from agentjobs.loops import index_loop
from agentjobs.loops.index_loop import IndexLoop
from agentjobs.settings import load
from agentjobs.store.database import Database
from tests.support.stores import until


def index_processes() -> list[int]:
    pids = []
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"inventory.index.child" in Path(f"/proc/{pid}/cmdline").read_bytes():
                pids.append(int(pid))
    return pids


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_an_idle_loop_has_a_process_ready_for_the_next_index(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_loop, "_IDLE_SECONDS", 0.01)
    loop = IndexLoop(database, load({"AGENTJOBS_DATA_DIR": str(tmp_path)}))
    running = asyncio.create_task(loop.run())
    await until(lambda: len(index_processes()) == 1, within_seconds=60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert index_processes() == []
