"""A delegated cgroup: when it is used, what is written to it, and that nothing is left in it."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentjobs.sandbox.cgroup import Cgroups, NotDelegated, claim, delegated
from agentjobs.sandbox.limits import Limits

DEAD_PID = 4_194_305  # above what a kernel hands out


class Tree:
    """Files as the kernel shows them, for a service in the cgroup `/agentjobs.service`."""

    def __init__(self, base: Path) -> None:
        self.proc = base / "proc"
        self.mount = base / "cgroup"
        self.root = self.mount / "agentjobs.service"
        self.root.mkdir(parents=True)
        (self.proc / "self").mkdir(parents=True)
        self.says(f"0::/{self.root.name}\n")
        (self.proc / "self/mountinfo").write_text(
            "21 1 8:1 / / rw - ext4 /dev/root rw\n"
            f"30 23 0:26 / {self.mount} rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
        )
        self.file("cgroup.controllers", "cpu memory pids\n")
        self.file("cgroup.procs", f"{os.getpid()}\n")
        self.file("cgroup.subtree_control", "")

    def says(self, text: str) -> None:
        (self.proc / "self/cgroup").write_text(text)

    def file(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def process(self, pid: int, parent: int) -> None:
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "stat").write_text(f"{pid} (a) b)) S {parent} 1 1\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_delegated_cgroup_is_found(tree: Tree) -> None:
    assert delegated(tree.proc) == tree.root


def test_from_its_own_leaf_the_service_finds_the_cgroup_above(tree: Tree) -> None:
    tree.says(f"0::/{tree.root.name}/service\n")
    tree.file("cgroup.procs", "")
    assert delegated(tree.proc) == tree.root


def test_in_a_container_the_mount_shows_only_a_part(tree: Tree) -> None:
    tree.says("0::/docker/abc/agentjobs.service\n")
    (tree.proc / "self/mountinfo").write_text(
        f"30 23 0:26 /docker/abc {tree.mount} rw - cgroup2 cgroup rw\n"
    )
    assert delegated(tree.proc) == tree.root


def test_a_machine_without_it_says_so(tree: Tree) -> None:
    tree.says("4:memory:/x\n")
    with pytest.raises(NotDelegated, match="no cgroup v2"):
        delegated(tree.proc)


def test_a_place_that_is_not_mounted_says_so(tree: Tree) -> None:
    (tree.proc / "self/mountinfo").write_text("21 1 8:1 / / rw - ext4 /dev/root rw\n")
    with pytest.raises(NotDelegated, match="no cgroup v2 file system is mounted"):
        delegated(tree.proc)


def test_missing_controllers_are_named(tree: Tree) -> None:
    tree.file("cgroup.controllers", "hugetlb pids\n")
    with pytest.raises(NotDelegated, match="no controller for memory"):
        delegated(tree.proc)


def test_a_cgroup_shared_with_others_is_not_taken(tree: Tree) -> None:
    tree.process(DEAD_PID, parent=1)
    tree.file("cgroup.procs", f"{os.getpid()}\n{DEAD_PID}\n")
    with pytest.raises(NotDelegated, match=f"shared with other processes, such as {DEAD_PID}"):
        delegated(tree.proc)


def test_children_of_the_service_are_no_others(tree: Tree) -> None:
    tree.process(DEAD_PID, parent=DEAD_PID - 1)
    tree.process(DEAD_PID - 1, parent=os.getpid())
    tree.file("cgroup.procs", f"{os.getpid()}\n{DEAD_PID}\n")
    assert delegated(tree.proc) == tree.root


def test_a_claimed_cgroup_has_its_controllers_and_the_service_a_leaf(tree: Tree) -> None:
    tree.file("cgroup.procs", "")
    cgroups = claim(tree.root)
    assert cgroups.root == tree.root
    assert (tree.root / "service").is_dir()
    assert (tree.root / "cgroup.subtree_control").read_text() == "+memory +pids\n"


def test_a_cgroup_that_cannot_be_divided_says_why(tree: Tree) -> None:
    (tree.root / "service").write_text("in the way")
    with pytest.raises(NotDelegated, match="cannot be divided: File exists"):
        claim(tree.root)


def test_the_limits_of_a_sandbox_are_written(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).new(Limits(memory_bytes=1024, processes=9))
    written = {path.name: path.read_text() for path in cgroup.path.iterdir()}
    assert written == {"memory.max": "1024\n", "memory.oom.group": "1\n", "pids.max": "9\n"}


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path("/dev/null").open("rb") as first_free:
        # Not less: a server that another test left in the background may go on waiting.
        lowest = first_free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_sandbox_whose_limits_cannot_be_written_leaves_nothing(tree: Tree) -> None:
    cgroups = Cgroups(tree.root)
    with no_more_descriptors(), pytest.raises(OSError) as raised:
        cgroups.new(Limits())
    assert raised.value.errno == errno.EMFILE
    assert list(tree.root.glob("sandbox-*")) == []


def test_a_limit_of_zero_is_not_written(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).new(Limits(memory_bytes=0, processes=0))
    assert list(cgroup.path.iterdir()) == []


def test_every_sandbox_has_its_own(tree: Tree) -> None:
    cgroups = Cgroups(tree.root)
    assert cgroups.new(Limits()).path != cgroups.new(Limits()).path


def test_a_sandbox_that_the_kernel_ended_for_its_memory_is_told_so(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).new(Limits())
    (cgroup.path / "cpu.stat").write_text("usage_usec 12\nuser_usec 5\n")
    (cgroup.path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\n")
    assert cgroup.look() is None
    (cgroup.path / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 3\n")
    assert cgroup.look() == "4 GiB of memory"


def test_cpu_time_is_the_kernels_count(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).new(Limits(memory_bytes=0, cpu_seconds=60))
    (cgroup.path / "cpu.stat").write_text("usage_usec 59999999\n")
    assert cgroup.look() is None
    (cgroup.path / "cpu.stat").write_text("usage_usec 60000000\n")
    assert cgroup.look() == "60 seconds of CPU time"


def test_what_could_not_be_removed_at_once_goes_with_a_later_one(tree: Tree) -> None:
    cgroups = Cgroups(tree.root)
    slow, later = (cgroups.new(Limits(memory_bytes=0, processes=0)) for _ in range(2))
    (slow.path / "still-dying").touch()
    cgroups.discard(slow)
    assert slow.path.exists()
    (slow.path / "still-dying").unlink()
    cgroups.discard(later)
    assert not slow.path.exists()
    assert not later.path.exists()


def test_leftovers_of_dead_services_are_swept_and_those_of_living_ones_stay(tree: Tree) -> None:
    tree.process(1, parent=0)
    left = tree.root / f"sandbox-{DEAD_PID}-0"
    living = tree.root / "sandbox-1-0"
    left.mkdir()
    living.mkdir()
    Cgroups(tree.root).sweep(tree.proc)
    assert not left.exists()
    assert living.exists()
