"""Sandboxes in real cgroups, as far as this machine lets a test make some.

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

from agentjobs.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs.sandbox.cgroup import Cgroups, NotDelegated, delegated
from agentjobs.sandbox.limits import Limits
from agentjobs.sandbox.protocol import SandboxError
from tests.support.sandbox import Mark, Room, eventually

# What works without the controllers that many test machines lack.
UNCONTROLLED = {"memory_bytes": 0, "processes": 0}


def hierarchy() -> Path | None:
    """Where cgroup v2 is mounted, if new ones can be made there."""
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


async def test_a_machine_is_looked_at_without_changing_it() -> None:
    before = Path("/proc/self/cgroup").read_text()
    with contextlib.suppress(NotDelegated):
        assert (delegated() / "cgroup.procs").exists()
    assert Path("/proc/self/cgroup").read_text() == before


async def test_all_processes_of_a_sandbox_are_in_its_cgroup_and_it_is_gone_afterwards(
    cgroups: Cgroups | None, tmp_path: Path
) -> None:
    room = Room(BubblewrapSandbox(900_000, cgroups), tmp_path)
    mark = Mark()
    running = room.start(
        f"{mark.sleeper()} & echo up; {mark.sleeper()}", limits=Limits(**UNCONTROLLED)
    )
    await room.heard(b"up")
    await eventually(lambda: len(mark.processes()) >= 2)
    if cgroups is not None:
        (directory,) = cgroups.root.glob("sandbox-*")
        members = set(map(int, (directory / "cgroup.procs").read_text().split()))
        (outside,) = set(mark.processes()) - members
        assert Path(f"/proc/{outside}/comm").read_text() == "bwrap\n"
        assert os.getpid() not in members
    running.cancel()
    await asyncio.wait({running})
    assert mark.processes() == []
    assert cgroups is None or list(cgroups.root.glob("sandbox-*")) == []


async def test_cpu_time_of_a_cgroup_is_limited(cgroups: Cgroups | None, tmp_path: Path) -> None:
    room = Room(BubblewrapSandbox(900_000, cgroups), tmp_path)
    limits = Limits(cpu_seconds=1, **UNCONTROLLED)
    report = await room.shell("while :; do :; done", limits=limits)
    assert (report.exit_code, report.exceeded) == (None, "1 second of CPU time")


async def test_a_cgroup_that_cannot_be_made_keeps_the_agent_from_starting(
    tmp_path: Path,
) -> None:
    room = Room(BubblewrapSandbox(900_000, Cgroups(tmp_path / "missing")), tmp_path)
    with pytest.raises(SandboxError, match="limits cannot be kept"):
        await room.shell("echo ran")
    assert room.output == b""


def test_what_a_killed_service_left_in_a_cgroup_dies_when_the_next_one_starts(
    cgroups: Cgroups | None,
) -> None:
    if cgroups is None:
        with pytest.raises(NotDelegated):
            delegated()
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
            delegated()
        return
    own = cgroups.root / "cgroup.procs"
    said = subprocess.run(
        [sys.executable, "-c", _SERVICE, cgroups.root, own],
        capture_output=True,
        text=True,
        check=True,
    )
    place, outcome = said.stdout.split("\n")[:2]
    assert place == f"0::/{cgroups.root.name}/service"
    assert outcome == "claimed" or "cannot be divided" in outcome
    (cgroups.root / "service").rmdir()


# On a machine without the controllers it is refused in the end, but it has moved by then.
_SERVICE = """
import os, sys
from pathlib import Path
from agentjobs.sandbox.cgroup import NotDelegated, claim
Path(sys.argv[2]).write_text(str(os.getpid()))
try:
    claim(Path(sys.argv[1]))
    outcome = "claimed"
except NotDelegated as why:
    outcome = str(why)
print(next(line for line in open("/proc/self/cgroup") if line.startswith("0::")).strip())
print(outcome)
"""
