"""Sandboxes that are created before their command is known: their use and their end."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.protocol import RunOwner, SandboxError, SandboxPort
from tests.support.sandbox import SandboxHarness, eventually, processes_with, unused_uid_base

UID_BASE = unused_uid_base()
# The pid namespace identifies a sandbox.
NAMESPACE = "readlink /proc/self/ns/pid"


@pytest.fixture
def harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(BubblewrapSandbox(UID_BASE), tmp_path)


async def prepare(harness: SandboxHarness, **changes: object) -> str:
    """The pid namespace of a prepared sandbox that is ready."""
    harness.sandbox.prepare(harness.task(**changes))
    await eventually(lambda: len(processes_with(harness.workspace)) > 1)
    first, *_ = processes_with(harness.workspace)
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    return str(Path(f"/proc/{children[0] if children else first}/ns/pid").readlink())


async def test_a_task_runs_in_the_sandbox_that_was_prepared_for_its_workspace(
    harness: SandboxHarness,
) -> None:
    namespace = await prepare(harness)
    (harness.workspace / "file").write_text("written later\n")
    report = await harness.shell(
        f'{NAMESPACE}; cat file; echo "$GREETING"',
        environment={"GREETING": "it's\n$HOME"},
        owner=RunOwner(organization_id="org_1", step="agent", job_id="job_1", fence=3),
        on_note=print,
    )
    assert report.exit_code == 0
    assert report.last_lines == f"{namespace}\nwritten later\nit's\n$HOME"
    assert processes_with(harness.workspace) == []


async def test_a_prepared_sandbox_that_is_not_ready_yet_is_used_when_it_is(
    harness: SandboxHarness,
) -> None:
    harness.sandbox.prepare(harness.task())
    assert (await harness.shell("echo done")).last_lines == "done"


async def test_the_agent_starts_only_after_the_start_is_recorded(harness: SandboxHarness) -> None:
    await prepare(harness)
    marker = harness.workspace / "ran"
    harness.workspace.chmod(0o777)

    async def record() -> None:
        assert not marker.exists()
        raise SandboxError("the start could not be recorded")

    with pytest.raises(SandboxError, match="recorded"):
        await harness.sandbox.run(harness.task("touch", "ran"), harness.receive, record)
    assert not marker.exists()
    assert processes_with(harness.workspace) == []


async def test_ports_of_a_task_are_opened_in_its_prepared_sandbox(harness: SandboxHarness) -> None:
    namespace = await prepare(harness)

    class Greeter(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.WriteTransport)
            transport.write(b"hello\n")
            transport.close()

    port = SandboxPort(number=8462, protocol=Greeter)
    client = "$socket = IO::Socket::INET->new(@ARGV); print <$socket>"
    script = f"{NAMESPACE}; exec perl -MIO::Socket -e '{client}' 127.0.0.1:8462"
    report = await harness.shell(script, ports=(port,))
    assert report.last_lines == f"{namespace}\nhello"


@pytest.mark.parametrize(
    "changes", [{"limits": Limits(file_bytes=4096)}, {"hosts": {"example.com": "127.0.0.2"}}]
)
async def test_a_task_with_another_view_or_other_limits_gets_its_own_sandbox(
    harness: SandboxHarness, changes: dict[str, object]
) -> None:
    namespace = await prepare(harness)
    script = f"{NAMESPACE}; ulimit -f; cat /etc/hosts"
    report = await harness.shell(script, **changes)
    assert report.exit_code == 0
    assert namespace not in report.last_lines
    assert ("\n8\n" in report.last_lines) is ("limits" in changes)
    assert ("example.com" in report.last_lines) is ("hosts" in changes)
    await eventually(lambda: processes_with(harness.workspace) == [])


async def test_a_program_that_was_replaced_since_is_seen_in_its_new_version(
    harness: SandboxHarness, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("old\n")
    await prepare(harness, read_only=(program,))
    replacement = tmp_path / "replacement"
    replacement.write_text("new\n")
    replacement.rename(program)
    report = await harness.run("cat", str(program), read_only=(program,))
    assert report.last_lines == "new"


async def test_a_prepared_sandbox_that_was_killed_is_not_used(harness: SandboxHarness) -> None:
    await prepare(harness)
    for pid in processes_with(harness.workspace):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    launch = harness.sandbox._prepared[harness.workspace].launch  # type: ignore[attr-defined]
    await asyncio.wait({launch.ended})
    assert (await harness.shell("echo done")).last_lines == "done"
    assert processes_with(harness.workspace) == []


@pytest.mark.parametrize("is_ready", [True, False])
async def test_nothing_is_left_of_a_discarded_sandbox(
    harness: SandboxHarness, is_ready: bool
) -> None:
    if is_ready:
        await prepare(harness)
    else:
        harness.sandbox.prepare(harness.task())
    await harness.sandbox.discard(harness.workspace)
    assert processes_with(harness.workspace) == []
    await harness.sandbox.discard(harness.workspace)


async def test_a_prepared_sandbox_ends_when_the_service_is_killed(tmp_path: Path) -> None:
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SERVICE, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    assert service.stdout is not None
    assert await service.stdout.readline() == b"prepared\n"
    workspace = tmp_path / "private-0" / "workspace"
    assert processes_with(workspace) != []
    service.kill()
    await service.wait()
    await eventually(lambda: processes_with(workspace) == [], seconds=1)


_SERVICE = """
import asyncio, sys
from pathlib import Path
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from worker.tests.integration.sandbox.test_prepared import prepare
from tests.support.sandbox import SandboxHarness, unused_uid_base

async def main():
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), Path(sys.argv[1]))
    await prepare(harness)
    print("prepared", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
