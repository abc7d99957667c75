"""How many names one job may have looked up at once, on threads that all jobs share."""

import asyncio
import contextlib
import threading
from collections.abc import Sequence

import pytest

from agentjobs.outbound import dial
from agentjobs.outbound.addresses import Allowed
from agentjobs.outbound.dial import Resolve
from agentjobs.outbound.gate import LOOKUPS_AT_ONCE, Gate, Refusal
from agentjobs.outbound.patterns import parse_pattern
from tests.stores import until


class SlowNames:
    """Blocks a thread for every name until `may_end`, as a resolver without an answer does."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Event()

    async def resolve(self, host: str, _port: int) -> Sequence[str]:
        return await asyncio.to_thread(self._look_up, host)

    def _look_up(self, host: str) -> Sequence[str]:
        self.begun.append(host)
        self.may_end.wait(60)
        raise OSError("no such name")


def gate_with(resolve: Resolve) -> Gate:
    return Gate([parse_pattern("*.slow.test")], Allowed(), lambda _reason: None, resolve)


async def give_up_on(gate: Gate, *hosts: str) -> None:
    async def reach(host: str) -> None:
        with contextlib.suppress(Refusal):
            await gate.reach(f"{host}.slow.test", 443)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dial, "CONNECT_SECONDS", 0.05)
        await asyncio.gather(*map(reach, hosts))


async def test_a_lookup_given_up_keeps_its_place_until_its_thread_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = SlowNames()
    gate = gate_with(names.resolve)
    try:
        await give_up_on(gate, "a", "b")
        await give_up_on(gate, "c", "d")
        await until(lambda: len(names.begun) >= LOOKUPS_AT_ONCE)
        assert len(names.begun) == LOOKUPS_AT_ONCE
    finally:
        names.may_end.set()

    with pytest.raises(Refusal, match="no such name"):
        await gate.reach("e.slow.test", 443)
    # Those that only waited are not looked up for nobody.
    assert sorted(names.begun) == ["a.slow.test", "b.slow.test", "e.slow.test"]
    assert caplog.records == []


async def test_closing_leaves_no_lookup_behind() -> None:
    async def never(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    gate = gate_with(never)
    before = asyncio.all_tasks()
    await give_up_on(gate, "a")

    gate.close()

    left = asyncio.all_tasks() - before
    async with asyncio.timeout(10):
        await asyncio.gather(*left, return_exceptions=True)
