"""Memory that belongs to no process still counts, or cannot be allocated, without a cgroup."""

import sys
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import SandboxReport
from tests.support.memory_programs import (
    DATAGRAM_SOCKETS,
    EXITED_LEADER,
    IS_REFUSED,
    MESSAGES,
    PAGE_TABLES,
    PIPES,
    PREFIX,
    SEMAPHORES,
    SHARED_SEGMENTS,
    STREAM_SOCKETS,
    TCP_SOCKETS,
    UDP_SOCKETS,
)
from tests.support.sandbox import SandboxHarness, unused_uid_base

MIB = 1024 * 1024


@pytest.fixture
def harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)


async def run(harness: SandboxHarness, script: str, limit: int = 100 * MIB) -> SandboxReport:
    return await harness.run(
        *(sys.executable, "-c", PREFIX + script),
        read_only=python_files(),
        limits=Limits(memory_bytes=limit),
        timeout_seconds=300,
    )


@pytest.mark.parametrize("script", [SEMAPHORES, MESSAGES, SHARED_SEGMENTS])
async def test_memory_of_the_kernel_that_nothing_counts_cannot_be_allocated(
    harness: SandboxHarness, script: str
) -> None:
    assert (await run(harness, script)).exit_code == IS_REFUSED


@pytest.mark.parametrize(
    "script",
    [STREAM_SOCKETS, DATAGRAM_SOCKETS, UDP_SOCKETS, TCP_SOCKETS],
    ids=["stream", "datagram", "udp", "tcp"],
)
async def test_the_buffers_of_sockets_count_as_memory(harness: SandboxHarness, script: str) -> None:
    assert (await run(harness, script)).exceeded == "100 MiB of memory"


async def test_the_buffers_of_pipes_count_as_memory(harness: SandboxHarness) -> None:
    assert (await run(harness, PIPES)).exceeded == "100 MiB of memory"


async def test_page_tables_count_as_memory(harness: SandboxHarness) -> None:
    assert (await run(harness, PAGE_TABLES)).exceeded == "100 MiB of memory"


async def test_a_process_whose_first_thread_has_ended_is_counted(
    harness: SandboxHarness,
) -> None:
    assert (await run(harness, EXITED_LEADER)).exceeded == "100 MiB of memory"


async def test_sockets_and_pipes_of_ordinary_programs_stay_within_the_limit(
    harness: SandboxHarness,
) -> None:
    script = """
pairs = [socket.socketpair() for _ in range(40)]
pipes = [os.pipe() for _ in range(200)]
server = socket.create_server(("127.0.0.1", 0))
clients = [socket.create_connection(server.getsockname()) for _ in range(20)]
time.sleep(0.5)
"""
    report = await run(harness, script)
    assert (report.exit_code, report.exceeded) == (0, None)
