"""Sandboxes in real cgroups, as far as this machine allows a test to create them.

Where it does not, the service must find that out and say why.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.cgroup import Cgroups
from agentjobs_worker.sandbox.cgroup_delegation import NotDelegated, find_delegated_cgroup
from agentjobs_worker.sandbox.priority import lowered_priority
from agentjobs_worker.sandbox.protocol import SandboxError
from tests.support.sandbox import ProcessMarker, SandboxHarness, eventually, unused_uid_base

# These limits work without the controllers that many test machines lack.
UNCONTROLLED = {"memory_bytes": 0, "processes": 0}


def hierarchy() -> Path | None:
    """The mount point of cgroup v2, if new cgroups can be created there."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        mount_point = Path(fields.split()[4])
        if rest.startswith("cgroup2 ") and os.access(mount_point, os.W_OK):
            return mount_point
    return None


@pytest.fixture
def cgroups() -> Iterator[Cgroups | None]:
    mount_point = hierarchy()
    if mount_point is None:
        yield None
        return
    root = mount_point / f"agentjobs-test-{os.getpid()}"
    root.mkdir()
    yield Cgroups(root)
    root.rmdir()


def is_complete(directory: Path, marker: ProcessMarker) -> bool:
    """Whether it holds all processes of the sandbox, those of bwrap too."""
    members = set(map(int, (directory / "cgroup.procs").read_text().split()))
    return os.getpid() not in members and set(marker.processes()) <= members


async def test_probing_a_machine_changes_nothing() -> None:
    before = Path("/proc/self/cgroup").read_text()
    with contextlib.suppress(NotDelegated):
        assert find_delegated_cgroup().is_dir()
    assert Path("/proc/self/cgroup").read_text() == before


async def test_all_processes_of_a_sandbox_are_in_its_cgroup_which_is_removed_afterwards(
    cgroups: Cgroups | None, tmp_path: Path
) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), cgroups), tmp_path)
    marker = ProcessMarker()
    running = harness.start(
        f"{marker.sleeper()} & echo up; {marker.sleeper()}", limits=Limits(**UNCONTROLLED)
    )
    await harness.wait_for_output(b"up")
    await eventually(lambda: len(marker.processes()) >= 2)
    if cgroups is not None:
        (directory,) = cgroups.root.glob("sandbox-*")
        await eventually(lambda: is_complete(directory, marker))
    running.cancel()
    await asyncio.wait({running})
    assert marker.processes() == []
    assert cgroups is None or list(cgroups.root.glob("sandbox-*")) == []


def read_stat(pid: int) -> list[str]:
    """Its number, name, state, parent and so on."""
    return Path(f"/proc/{pid}/stat").read_text().split()


async def test_only_the_process_that_ends_a_sandbox_has_the_priority_of_the_service(
    tmp_path: Path,
) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
    marker = ProcessMarker()
    running = harness.start(f"echo up; {marker.sleeper()}")
    await harness.wait_for_output(b"up")
    await eventually(lambda: len(marker.processes()) >= 1)
    agent = marker.processes()[0]
    last = agent
    while read_stat(last)[1] != "(bwrap)":
        last = int(read_stat(last)[3])
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, last) == own
    assert os.getpriority(os.PRIO_PROCESS, agent) == lowered_priority() > own
    running.cancel()
    await asyncio.wait({running})


async def test_cpu_time_of_a_cgroup_is_limited(cgroups: Cgroups | None, tmp_path: Path) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), cgroups), tmp_path)
    limits = Limits(cpu_seconds=1, **UNCONTROLLED)
    report = await harness.shell("while :; do :; done", limits=limits, timeout_seconds=300)
    assert (report.exit_code, report.exceeded) == (None, "1 second of CPU time")


async def test_the_agent_does_not_start_if_its_cgroup_cannot_be_created(
    tmp_path: Path,
) -> None:
    harness = SandboxHarness(
        BubblewrapSandbox(unused_uid_base(), Cgroups(tmp_path / "missing")), tmp_path
    )
    with pytest.raises(SandboxError, match="limits cannot be enforced"):
        await harness.shell("echo ran")
    assert harness.output == b""


def test_processes_a_killed_service_left_in_a_cgroup_die_when_the_next_service_starts(
    cgroups: Cgroups | None,
) -> None:
    if cgroups is None:
        with pytest.raises(NotDelegated):
            find_delegated_cgroup()
        return
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = cgroups.root / f"sandbox-{dead.pid}-0"
    left.mkdir()
    with subprocess.Popen(["sleep", "1000"]) as orphan:
        (left / "cgroup.procs").write_text(f"{orphan.pid}\n")
        cgroups.sweep()
    assert orphan.returncode == -signal.SIGKILL
    cgroups.sweep()
    assert not left.exists()


def test_a_service_moves_into_its_leaf_before_it_divides_its_cgroup(
    cgroups: Cgroups | None,
) -> None:
    if cgroups is None:
        with pytest.raises(NotDelegated):
            find_delegated_cgroup()
        return
    own = cgroups.root / "cgroup.procs"
    result = subprocess.run(
        [sys.executable, "-c", _SERVICE, cgroups.root, own],
        capture_output=True,
        text=True,
        check=True,
    )
    place, outcome = result.stdout.split("\n")[:2]
    assert place == f"0::/{cgroups.root.name}/service"
    assert outcome == "claimed" or "cannot be divided" in outcome
    (cgroups.root / "service").rmdir()


# A machine without the controllers refuses in the end, but the service has moved by then.
_SERVICE = """
import os, sys
from pathlib import Path
from agentjobs_worker.sandbox.cgroup_delegation import NotDelegated, claim
Path(sys.argv[2]).write_text(str(os.getpid()))
try:
    claim(Path(sys.argv[1]))
    outcome = "claimed"
except NotDelegated as why:
    outcome = str(why)
print(next(line for line in open("/proc/self/cgroup") if line.startswith("0::")).strip())
print(outcome)
"""
