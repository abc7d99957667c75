"""Which spare copies a job waits for."""

import asyncio
import threading
from pathlib import Path

from agentjobs_worker.workspace.spares import Copy, Spares


async def test_a_job_does_not_wait_for_repairs_of_other_repositories(tmp_path: Path) -> None:
    started, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def repair(_copy: Copy, _copied_at_ns: int) -> bool:
        loop.call_soon_threadsafe(started.set)
        return may_end.wait(60)

    spares = Spares(lambda *_: None, repair, lambda _: None)
    large, small = (Copy(tmp_path / name, name, "commit", 1, 1) for name in ("large", "small"))
    spares.give_back(large, 0)
    await started.wait()
    spares.give_back(small, 0)
    async with asyncio.timeout(20):
        assert await spares.take("small", "commit") is None
    under_repair = asyncio.create_task(spares.take("large", "commit"))
    await asyncio.sleep(0)
    may_end.set()
    assert await under_repair == large
    await spares.wait_until_idle()
    assert spares.spares == (small,)
