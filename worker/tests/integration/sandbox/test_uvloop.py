"""Sandboxes on uvloop, the event loop of the service."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.process import ProcessSandbox
from agentjobs_worker.sandbox.protocol import Sandbox
from tests.support.sandbox import ProcessMarker, SandboxHarness, unused_uid_base

OnLoop = Callable[[Callable[[SandboxHarness], Awaitable[None]]], None]


@pytest.fixture(params=["bubblewrap", "none"])
def on_uvloop(request: pytest.FixtureRequest, tmp_path: Path) -> OnLoop:
    def run(test: Callable[[SandboxHarness], Awaitable[None]]) -> None:
        sandbox: Sandbox = ProcessSandbox()
        if request.param == "bubblewrap":
            sandbox = BubblewrapSandbox(unused_uid_base())

        async def main() -> None:
            await test(SandboxHarness(sandbox, tmp_path))

        uvloop.run(main())

    return run


def test_output_and_exit_code_arrive(on_uvloop: OnLoop) -> None:
    async def check(harness: SandboxHarness) -> None:
        report = await harness.shell("seq 1 100000; exit 5")
        assert report.exit_code == 5
        assert harness.output.count(b"\n") == 100_000

    on_uvloop(check)


def test_the_wall_clock_ends_a_command(on_uvloop: OnLoop) -> None:
    async def check(harness: SandboxHarness) -> None:
        marker = ProcessMarker()
        report = await harness.shell(marker.sleeper(), timeout_seconds=0.1)
        assert report.timed_out
        assert marker.processes() == []

    on_uvloop(check)


def test_cancelling_kills_everything(on_uvloop: OnLoop) -> None:
    async def check(harness: SandboxHarness) -> None:
        marker = ProcessMarker()
        running = harness.start(f"echo up; {marker.sleeper()} & {marker.sleeper()}")
        await harness.wait_for_output(b"up")
        running.cancel()
        await asyncio.wait({running}, timeout=1)
        assert running.cancelled()
        assert marker.processes() == []

    on_uvloop(check)
