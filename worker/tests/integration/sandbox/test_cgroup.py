"""Sandboxes in real cgroups, as far as this machine allows a test to create them.

Where it does not, the service must find that out and say why.
"""

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.cgroup import NotDelegated
from agentjobs_worker.sandbox.cgroup_delegation import find_delegation
from agentjobs_worker.sandbox.cgroup_v1 import CgroupsV1, find_delegated_cgroups
from agentjobs_worker.sandbox.cgroup_v1 import claim as claim_v1
from agentjobs_worker.sandbox.cgroup_v2 import CgroupsV2, find_delegated_cgroup
from agentjobs_worker.sandbox.protocol import HostExhausted, SandboxError
from tests.support.memory_programs import IS_REFUSED, PREFIX, SEMAPHORES
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
def cgroups() -> Iterator[CgroupsV2 | None]:
    mount_point = hierarchy()
    if mount_point is None:
        yield None
        return
    root = mount_point / f"agentjobs-test-{os.getpid()}"
    root.mkdir()
    yield CgroupsV2(root)
    root.rmdir()


@pytest.fixture
def cgroups_v1() -> CgroupsV1 | None:
    try:
        return claim_v1(find_delegated_cgroups())
    except NotDelegated:
        return None


def is_complete(directory: Path, marker: ProcessMarker) -> bool:
    """Whether it holds all processes of the agent: only those of bwrap may be outside."""
    processes = marker.processes()
    members = set(map(int, (directory / "cgroup.procs").read_text().split()))
    outside = [Path(f"/proc/{pid}/comm").read_text() for pid in processes if pid not in members]
    return len(members) >= 2 and os.getpid() not in members and set(outside) <= {"bwrap\n"}


async def test_probing_a_machine_changes_nothing() -> None:
    before = Path("/proc/self/cgroup").read_text()
    with contextlib.suppress(NotDelegated):
        assert " at /" in find_delegation().description
    assert Path("/proc/self/cgroup").read_text() == before


async def test_all_processes_of_a_sandbox_are_in_its_cgroup_which_is_removed_afterwards(
    cgroups: CgroupsV2 | None, tmp_path: Path
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


async def test_cpu_time_of_a_cgroup_is_limited(cgroups: CgroupsV2 | None, tmp_path: Path) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), cgroups), tmp_path)
    limits = Limits(cpu_seconds=1, **UNCONTROLLED)
    report = await harness.shell("while :; do :; done", limits=limits, timeout_seconds=300)
    assert (report.exit_code, report.exceeded) == (None, "1 second of CPU time")


async def test_the_agent_does_not_start_if_its_cgroup_cannot_be_created(
    tmp_path: Path,
) -> None:
    harness = SandboxHarness(
        BubblewrapSandbox(unused_uid_base(), CgroupsV2(tmp_path / "missing")), tmp_path
    )
    with pytest.raises(SandboxError, match="limits cannot be enforced"):
        await harness.shell("echo ran")
    assert harness.output == b""


def test_processes_a_killed_service_left_in_a_cgroup_die_when_the_next_service_starts(
    cgroups: CgroupsV2 | None,
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
    cgroups: CgroupsV2 | None,
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


def leftovers(cgroups: CgroupsV1 | None) -> list[Path]:
    directories = set() if cgroups is None else set(cgroups.directories.values())
    return [path for root in directories for path in root.glob(f"agentjobs-{os.getpid()}-*")]


async def test_a_v1_cgroup_holds_all_processes_and_is_removed_afterwards(
    cgroups_v1: CgroupsV1 | None, tmp_path: Path
) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), cgroups_v1), tmp_path)
    marker = ProcessMarker()
    running = harness.start(f"{marker.sleeper()} & echo up; {marker.sleeper()}")
    await harness.wait_for_output(b"up")
    await eventually(lambda: len(marker.processes()) >= 2)
    for directory in leftovers(cgroups_v1):
        await eventually(functools.partial(is_complete, directory, marker))
    running.cancel()
    await asyncio.wait({running})
    assert (marker.processes(), leftovers(cgroups_v1)) == ([], [])


async def test_memory_that_no_process_owns_is_limited_by_v1(
    cgroups_v1: CgroupsV1 | None, tmp_path: Path
) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), cgroups_v1), tmp_path)
    report = await harness.shell(
        "head -c 100000000 /dev/zero > /tmp/x; sleep 1000", limits=Limits(memory_bytes=64 * 1024**2)
    )
    assert (report.exit_code, report.exceeded) == (None, "64 MiB of memory")
    assert leftovers(cgroups_v1) == []


async def test_memory_that_the_machine_lacks_is_not_the_agents_in_v1(
    cgroups_v1: CgroupsV1 | None, tmp_path: Path
) -> None:
    if cgroups_v1 is None:
        pytest.skip("this machine has no cgroup v1 to divide")
    root = cgroups_v1.directories["memory"]
    machine = root / f"agentjobs-test-{os.getpid()}"
    machine.mkdir()
    (machine / "memory.limit_in_bytes").write_text(f"{48 * 1024**2}\n")
    cgroups = CgroupsV1({**cgroups_v1.directories, "memory": machine})
    sandbox = BubblewrapSandbox(unused_uid_base(), cgroups)
    hoard = (sys.executable, "-c", "hoard = b'x' * 200_000_000")
    try:
        with pytest.raises(HostExhausted, match="the machine has no memory left"):
            await SandboxHarness(sandbox, tmp_path).run(*hoard, read_only=python_files())
    finally:
        # The thread that starts sandboxes stays in the cgroup of the service.
        spawning = sandbox._shared.spawn_executor
        spawning.submit((root / "tasks").write_text, "0\n").result()
        machine.rmdir()


async def test_memory_of_the_kernel_is_limited_by_v1(
    cgroups_v1: CgroupsV1 | None, tmp_path: Path
) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), cgroups_v1), tmp_path)
    report = await harness.run(
        *(sys.executable, "-c", PREFIX + SEMAPHORES),
        read_only=python_files(),
        limits=Limits(memory_bytes=100 * 1024**2),
    )
    if cgroups_v1 is None:
        assert report.exit_code == IS_REFUSED
    else:
        assert report.exceeded == "100 MiB of memory"


async def test_cpu_time_is_limited_by_v1(cgroups_v1: CgroupsV1 | None, tmp_path: Path) -> None:
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), cgroups_v1), tmp_path)
    limits = Limits(cpu_seconds=1)
    report = await harness.shell("while :; do :; done", limits=limits, timeout_seconds=300)
    assert (report.exit_code, report.exceeded) == (None, "1 second of CPU time")


async def test_a_sandbox_gets_at_most_its_number_of_cpus(
    cgroups_v1: CgroupsV1 | None, tmp_path: Path
) -> None:
    if cgroups_v1 is None:
        with pytest.raises(NotDelegated):
            find_delegated_cgroups()
        return
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base(), cgroups_v1), tmp_path)
    running = harness.start("echo up; while :; do :; done", limits=Limits(cpus=0.01))
    await harness.wait_for_output(b"up")
    (directory,) = cgroups_v1.directories["cpu"].glob(f"agentjobs-{os.getpid()}-*")

    def is_throttled() -> bool:
        return "nr_throttled 0\n" not in (directory / "cpu.stat").read_text()

    await eventually(lambda: (directory / "cpu.shares").read_text() == "102\n")
    await eventually(is_throttled)
    running.cancel()
    await asyncio.wait({running})


def test_processes_a_killed_service_left_in_v1_die_when_the_next_service_starts(
    cgroups_v1: CgroupsV1 | None,
) -> None:
    if cgroups_v1 is None:
        with pytest.raises(NotDelegated):
            find_delegated_cgroups()
        return
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = cgroups_v1.directories["memory"] / f"agentjobs-{dead.pid}-0"
    left.mkdir()
    with subprocess.Popen(["sleep", "1000"]) as orphan:
        (left / "cgroup.procs").write_text(f"{orphan.pid}\n")
        cgroups_v1.sweep()
    assert orphan.returncode == -signal.SIGKILL
    cgroups_v1.sweep()
    assert not left.exists()


# A machine without the controllers refuses in the end, but the service has moved by then.
_SERVICE = """
import os, sys
from pathlib import Path
from agentjobs_worker.sandbox.cgroup import NotDelegated
from agentjobs_worker.sandbox.cgroup_v2 import claim
Path(sys.argv[2]).write_text(str(os.getpid()))
try:
    claim(Path(sys.argv[1]))
    outcome = "claimed"
except NotDelegated as why:
    outcome = str(why)
print(next(line for line in open("/proc/self/cgroup") if line.startswith("0::")).strip())
print(outcome)
"""
