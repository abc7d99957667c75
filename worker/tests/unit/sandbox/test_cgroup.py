"""A delegated cgroup: when it is used, what is written to it, and that it is left empty."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import NO_HOST_MEMORY, Limits
from agentjobs_worker.sandbox.cgroup import Cgroups
from agentjobs_worker.sandbox.cgroup_delegation import (
    NotDelegated,
    claim,
    delegation_command,
    find_delegated_cgroup,
    has_cpu_controller,
)

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
    assert find_delegated_cgroup(tree.proc) == tree.root


def test_a_service_in_its_leaf_finds_the_parent_cgroup(tree: Tree) -> None:
    tree.says(f"0::/{tree.root.name}/service\n")
    tree.file("cgroup.procs", "")
    assert find_delegated_cgroup(tree.proc) == tree.root


def test_a_container_that_mounts_part_of_the_hierarchy_works(tree: Tree) -> None:
    tree.says("0::/docker/abc/agentjobs.service\n")
    (tree.proc / "self/mountinfo").write_text(
        f"30 23 0:26 /docker/abc {tree.mount} rw - cgroup2 cgroup rw\n"
    )
    assert find_delegated_cgroup(tree.proc) == tree.root


def test_a_machine_without_cgroup_v2_is_reported(tree: Tree) -> None:
    tree.says("4:memory:/x\n")
    with pytest.raises(NotDelegated, match="no cgroup v2"):
        find_delegated_cgroup(tree.proc)


def test_the_advice_for_a_machine_without_a_cgroup_names_systemd_where_it_runs(
    tmp_path: Path,
) -> None:
    assert "-p Delegate=yes agentjobs worker" in delegation_command(tmp_path)
    assert "start the service in a cgroup" in delegation_command(tmp_path / "missing")


def test_an_unmounted_cgroup_is_reported(tree: Tree) -> None:
    (tree.proc / "self/mountinfo").write_text("21 1 8:1 / / rw - ext4 /dev/root rw\n")
    with pytest.raises(NotDelegated, match="no mounted cgroup v2 file system"):
        find_delegated_cgroup(tree.proc)


def test_missing_controllers_are_named(tree: Tree) -> None:
    tree.file("cgroup.controllers", "hugetlb pids\n")
    with pytest.raises(NotDelegated, match="no controller for memory"):
        find_delegated_cgroup(tree.proc)


def test_a_cgroup_shared_with_other_processes_is_refused(tree: Tree) -> None:
    tree.process(DEAD_PID, parent=1)
    tree.file("cgroup.procs", f"{os.getpid()}\n{DEAD_PID}\n")
    with pytest.raises(NotDelegated, match=f"shared with other processes, such as {DEAD_PID}"):
        find_delegated_cgroup(tree.proc)


def test_children_of_the_service_do_not_count_as_other_processes(tree: Tree) -> None:
    tree.process(DEAD_PID, parent=DEAD_PID - 1)
    tree.process(DEAD_PID - 1, parent=os.getpid())
    tree.file("cgroup.procs", f"{os.getpid()}\n{DEAD_PID}\n")
    assert find_delegated_cgroup(tree.proc) == tree.root


def test_claiming_a_cgroup_enables_controllers_and_moves_the_service_into_a_leaf(
    tree: Tree,
) -> None:
    tree.file("cgroup.procs", "")
    cgroups = claim(tree.root)
    assert cgroups.root == tree.root
    assert (tree.root / "service").is_dir()
    assert (tree.root / "cgroup.subtree_control").read_text() == "+cpu +memory +pids\n"


def test_a_cgroup_that_cannot_be_divided_is_reported_with_a_reason(tree: Tree) -> None:
    (tree.root / "service").write_text("in the way")
    with pytest.raises(NotDelegated, match="cannot be divided: File exists"):
        claim(tree.root)


def test_the_limits_of_a_sandbox_are_written(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).create(Limits(memory_bytes=1024, processes=9))
    written = {path.name: path.read_text() for path in cgroup.path.iterdir()}
    assert written == {"memory.max": "1024\n", "memory.oom.group": "1\n", "pids.max": "9\n"}


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path("/dev/null").open("rb") as first_free:
        # At least: a server of another test may still be waiting in the background.
        lowest = first_free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_sandbox_whose_limits_cannot_be_written_leaves_nothing(tree: Tree) -> None:
    cgroups = Cgroups(tree.root)
    with no_more_descriptors(), pytest.raises(OSError) as raised:
        cgroups.create(Limits())
    assert raised.value.errno == errno.EMFILE
    assert list(tree.root.glob("sandbox-*")) == []


def test_a_limit_of_zero_is_not_written(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).create(Limits(memory_bytes=0, processes=0))
    assert list(cgroup.path.iterdir()) == []


def test_every_sandbox_has_its_own_cgroup(tree: Tree) -> None:
    cgroups = Cgroups(tree.root)
    assert cgroups.create(Limits()).path != cgroups.create(Limits()).path


def test_an_oom_kill_is_reported_as_the_memory_limit(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).create(Limits())
    (cgroup.path / "cpu.stat").write_text("usage_usec 12\nuser_usec 5\n")
    (cgroup.path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\n")
    assert cgroup.exceeded_limit() is None
    (cgroup.path / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 3\n")
    assert cgroup.exceeded_limit() == "4 GiB of memory"


def test_an_oom_kill_below_the_memory_limit_is_that_of_the_machine(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).create(Limits())
    (cgroup.path / "cpu.stat").write_text("usage_usec 12\nuser_usec 5\n")
    (cgroup.path / "memory.events").write_text("low 0\nmax 7\noom 0\noom_kill 3\n")
    assert cgroup.exceeded_limit() == NO_HOST_MEMORY


def test_cpu_time_is_read_from_the_kernel(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).create(Limits(memory_bytes=0, cpu_seconds=60))
    (cgroup.path / "cpu.stat").write_text("usage_usec 59999999\n")
    assert cgroup.exceeded_limit() is None
    (cgroup.path / "cpu.stat").write_text("usage_usec 60000000\n")
    assert cgroup.exceeded_limit() == "60 seconds of CPU time"


def test_a_cgroup_is_quiet_while_it_uses_no_cpu_time(tree: Tree) -> None:
    cgroup = Cgroups(tree.root).create(Limits(memory_bytes=0))
    is_quiet = []
    for used in (12, 12, 13):
        (cgroup.path / "cpu.stat").write_text(f"usage_usec {used}\n")
        cgroup.exceeded_limit()
        is_quiet.append(cgroup.is_quiet)
    assert is_quiet == [False, True, False]


def test_a_cgroup_that_cannot_be_removed_yet_is_removed_with_a_later_one(tree: Tree) -> None:
    cgroups = Cgroups(tree.root)
    slow, later = (cgroups.create(Limits(memory_bytes=0, processes=0)) for _ in range(2))
    (slow.path / "still-dying").touch()
    cgroups.discard(slow)
    assert slow.path.exists()
    (slow.path / "still-dying").unlink()
    cgroups.discard(later)
    assert not slow.path.exists()
    assert not later.path.exists()


def test_cgroups_of_dead_services_are_removed_and_those_of_running_ones_stay(tree: Tree) -> None:
    tree.process(1, parent=0)
    left = tree.root / f"sandbox-{DEAD_PID}-0"
    living = tree.root / "sandbox-1-0"
    left.mkdir()
    living.mkdir()
    foreign = [tree.root / name for name in ("sandbox-test-70", "sandbox-2-x", "sandbox-a-2-3")]
    for directory in foreign:
        directory.mkdir()
    Cgroups(tree.root).sweep(tree.proc)
    assert not left.exists()
    assert living.exists()
    assert all(directory.exists() for directory in foreign)


def test_a_sandbox_has_a_low_cpu_share_and_its_limit_of_cpus(tree: Tree) -> None:
    cgroups = Cgroups(tree.root)
    directory = tree.root / f"sandbox-{os.getpid()}-0"
    # The kernel creates the files of enabled controllers with the directory.
    with files_in_new_directories("cpu.weight", "cpu.max"):
        cgroup = cgroups.create(Limits(cpus=1.5, memory_bytes=0))
    (directory / "cpu.stat").write_text("usage_usec 1\n")
    assert (directory / "cpu.weight").read_text() == ""
    assert cgroup.exceeded_limit() is None
    assert (directory / "cpu.weight").read_text() == "10\n"
    assert (directory / "cpu.max").read_text() == "150000 100000\n"
    (directory / "cgroup.kill").touch()
    cgroup.kill()
    assert (directory / "cgroup.kill").read_text() == "1\n"
    assert (directory / "cpu.weight").read_text() == "100\n"
    assert (directory / "cpu.max").read_text() == "max\n"


def test_the_service_has_a_higher_cpu_share_than_its_sandboxes(tree: Tree) -> None:
    tree.file("cgroup.procs", "")
    (tree.root / "service").mkdir()
    (tree.root / "service/cpu.weight").write_text("100\n")
    claim(tree.root)
    assert (tree.root / "service/cpu.weight").read_text() == "1000\n"


def test_a_service_without_the_cpu_controller_enables_the_others(tree: Tree) -> None:
    tree.file("cgroup.procs", "")
    tree.file("cgroup.controllers", "memory pids\n")
    claim(tree.root)
    assert (tree.root / "cgroup.subtree_control").read_text() == "+memory +pids\n"
    assert not has_cpu_controller(tree.root)


@contextmanager
def files_in_new_directories(*names: str) -> Iterator[None]:
    mkdir = Path.mkdir

    def mkdir_with_files(path: Path) -> None:
        mkdir(path)
        for name in names:
            (path / name).touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", mkdir_with_files)
        yield
