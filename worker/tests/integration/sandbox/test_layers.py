"""Layers of a sandbox: shared directories that each sandbox changes in private."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.sandboxes.directories import HOME, WORKSPACE
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.agents.builtin_agents import python_files
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.process import ProcessSandbox
from agentjobs_worker.sandbox.protocol import SandboxError, SandboxUnavailable
from tests.support.sandbox import (
    ProcessMarker,
    SandboxHarness,
    eventually,
    give,
    processes_with,
    unused_uid_base,
)
from tests.support.trees import describe_tree

MIB = 1024 * 1024
# Whoever built the snapshot: not the slot that runs on it.
BUILDER = 5
FILES = {"kept": "kept\n", "changed": "before\n", "deep/er/file": "deep\n"}


@pytest.fixture
def harness(tmp_path: Path) -> SandboxHarness:
    return SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)


async def test_files_of_another_slot_belong_to_the_agent(harness: SandboxHarness) -> None:
    home = harness.layer(HOME, harness.snapshot(FILES, BUILDER), BUILDER)
    script = "cd; stat -c '%U %a' kept deep; cat kept deep/er/file; echo more >> kept; cat kept"
    report = await harness.shell(script, layers=(home,))
    assert report.last_lines.split("\n") == [
        *("agent 600", "agent 700"),
        *("kept", "deep", "kept", "more"),
    ]


async def test_what_a_sandbox_writes_is_in_its_own_directory_only(
    harness: SandboxHarness, tmp_path: Path
) -> None:
    snapshot = harness.snapshot(FILES, BUILDER)
    before = describe_tree(snapshot)
    other = SandboxHarness(harness.sandbox, tmp_path, slot=1)
    layers = [builder.layer(HOME, snapshot, BUILDER) for builder in (harness, other)]
    script = "cd; echo $$ > mine; rm changed; mv kept moved; rm -r deep; mkdir deep; ls -A . deep"
    reports = await asyncio.gather(
        harness.shell(script, layers=layers[:1]),
        other.shell("cat ~/changed ~/kept", layers=layers[1:]),
    )
    assert reports[0].last_lines.split() == [".:", "deep", "mine", "moved", "deep:"]
    assert reports[1].last_lines.split() == ["before", "kept"]
    assert describe_tree(snapshot) == before
    owner = harness.sandbox.owner_uid(0)
    assert (layers[0].upper / "mine").stat().st_uid == (os.geteuid() if owner is None else owner)
    assert list(layers[1].upper.iterdir()) == []


async def test_the_next_sandbox_with_the_same_layer_finds_what_was_written(
    harness: SandboxHarness,
) -> None:
    harness.use_layers()
    await harness.shell("rm kept ~/kept; echo new > written; echo new > ~/written")
    report = await harness.shell("ls -A . ~; cat written ~/written; rm ~/written")
    assert report.last_lines.split() == [
        *(".:", "written"),
        *("/home/agent:", "written"),
        *("new", "new"),
    ]
    assert (await harness.shell("ls -A ~")).last_lines == ""


async def test_the_workspace_keeps_its_files_beside_those_of_its_layer(
    harness: SandboxHarness,
) -> None:
    (harness.workspace / "tracked").write_text("tracked")
    give(harness.workspace / "tracked", harness.sandbox.owner_uid(0))
    harness.layers = (harness.layer(WORKSPACE, harness.snapshot(FILES, BUILDER), BUILDER),)
    report = await harness.shell("ls; echo changed > tracked; echo changed > kept")
    assert report.last_lines.split() == ["changed", "deep", "kept", "tracked"]
    assert (harness.workspace / "tracked").read_text() == "changed\n"
    assert (harness.workspace / "kept").read_text() == "changed\n"
    assert {path.name for path in harness.workspace.iterdir()} == {"kept", "tracked"}


# Each line of an attempt may fail. Nothing may reach the snapshot.
HOSTILE = r"""
import ctypes, mmap, os, stat
libc = ctypes.CDLL(None, use_errno=True)
def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError:
        return None
for place in (os.environ["HOME"], "/workspace"):
    os.chdir(place)
    names = [os.path.join(top, name) for top, _, files in os.walk(".") for name in files]
    assert len(names) == 12, names
    for number, name in enumerate(names):
        directory = os.path.dirname(name)
        attempt(os.chmod, name, 0o777)
        attempt(os.chmod, directory, 0o777)
        attempt(os.utime, name, (1, 1))
        for key in ("user.mine", "user.overlay.opaque", "user.overlay.redirect",
                "user.overlay.metacopy", "user.overlay.whiteout", "trusted.overlay.opaque"):
            for target in (name, directory):
                attempt(os.setxattr, target, key, b"y")
        attempt(os.setxattr, directory, "user.overlay.redirect", b"/deep")
        attempt(os.link, name, f"link-{number}")
        with open(name, "r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
            mapped[0:1] = b"X"
            mapped.flush()
            os.ftruncate(file.fileno(), 1)
            attempt(os.posix_fallocate, file.fileno(), 0, 100)
        attempt(os.truncate, name, 0)
        attempt(os.mknod, f"{name}-whiteout", stat.S_IFCHR, os.makedev(0, 0))
        attempt(os.mkfifo, f"{name}-pipe")
        if number % 3 == 0:
            os.unlink(name)
            os.symlink("/etc/passwd", name)
        if number % 3 == 1:
            os.replace(name, f"{name}-moved")
    libc.renameat2(-100, b"deep", -100, b"wide", 2)
    attempt(os.rename, "deep", "renamed")
    os.system("cp -a wide copied; rm -rf wide; mkdir wide; chmod 000 .")
print("done")
"""


async def test_no_attempt_changes_what_is_shared(harness: SandboxHarness) -> None:
    files = {f"{place}/{number}": "content\n" for place in ("deep", "wide") for number in range(6)}
    snapshot = harness.snapshot(files, BUILDER)
    before = describe_tree(snapshot)
    layers = tuple(harness.layer(inside, snapshot, BUILDER) for inside in (HOME, WORKSPACE))
    python = (sys.executable, "-c", HOSTILE)
    report = await harness.run(*python, read_only=python_files(), layers=layers)
    assert report.last_lines.endswith("done"), report
    assert describe_tree(snapshot) == before


# An attribute with which the kernel would look for a file elsewhere, if it followed any.
REDIRECT = """
import os
os.makedirs("visible/inner")
for name in ("visible", "visible/inner"):
    os.setxattr(name, "user.overlay.redirect", b"/secret")
open("file", "w").close()
os.setxattr("file", "user.overlay.metacopy", b"")
os.setxattr("file", "user.overlay.redirect", b"/secret/file")
"""


async def test_attributes_that_an_agent_left_lead_nowhere(harness: SandboxHarness) -> None:
    """The first command runs without layers, so that nothing keeps it from setting them."""
    python = (sys.executable, "-c", REDIRECT)
    assert (await harness.run(*python, read_only=python_files())).exit_code == 0
    snapshot = harness.snapshot({"secret/file": "secret\n"}, BUILDER)
    layer = harness.layer(WORKSPACE, snapshot, BUILDER)
    report = await harness.shell("rm -r secret; cat file visible/*; ls -R", layers=(layer,))
    assert "secret" not in report.last_lines


async def test_no_path_of_the_machine_is_visible(harness: SandboxHarness) -> None:
    harness.use_layers()
    report = await harness.shell("grep overlay /proc/self/mountinfo")
    shown = "\n".join(line for line in report.last_lines.split("\n") if "overlay" in line)
    assert shown.count("lowerdir=/proc/self/fd/") == 2
    assert harness.private.name not in shown
    # The first process of the sandbox sees no more than the agent.
    root = await harness.shell("ls -A / /proc/1/root/; ls /oldroot /newroot; true")
    assert "private" not in root.last_lines
    assert root.last_lines.count("No such file or directory") == 2


async def test_mounts_cannot_be_changed(harness: SandboxHarness) -> None:
    harness.use_layers()
    script = """
    umount /home/agent && echo REACHED
    mount -o remount,rw /usr && echo REACHED
    mount -t overlay x -o lowerdir=/usr:/etc /tmp && echo REACHED
    mount --bind /usr ~ && echo REACHED
    unshare -Urm true && echo REACHED
    grep -E '^(Cap|NoNewPrivs)' /proc/self/status
    """
    await harness.shell(script)
    assert b"REACHED" not in harness.output
    status = dict(
        line.split(":\t") for line in harness.output.decode().splitlines() if ":\t" in line
    )
    assert status.pop("NoNewPrivs") == "1"
    assert len(status) == 5
    assert {int(value, 16) for value in status.values()} == {0}


async def test_files_in_a_layer_count_as_disk_and_not_as_memory(harness: SandboxHarness) -> None:
    harness.use_layers()
    limits = Limits(workspace_bytes=32 * MIB, memory_bytes=256 * MIB)
    small = await harness.shell("head -c 4000000 /dev/zero > ~/big; sleep 0.5", limits=limits)
    assert (small.exceeded, small.exit_code) == (None, 0)
    script = "cd; while n=x$n; do head -c 4000000 /dev/zero > $n; done"
    assert (await harness.shell(script, limits=limits)).exceeded == limits.workspace_text


async def test_deleted_files_that_stay_open_in_a_layer_count(harness: SandboxHarness) -> None:
    harness.use_layers()
    limits = Limits(workspace_bytes=32 * MIB)
    script = "cd; exec 3>big; rm big; while :; do head -c 4000000 /dev/zero >&3; done"
    assert (await harness.shell(script, limits=limits)).exceeded == limits.workspace_text


async def test_a_prepared_sandbox_with_other_layers_is_not_used(harness: SandboxHarness) -> None:
    harness.sandbox.prepare(harness.task())
    harness.use_layers()
    assert (await harness.shell("cat kept")).last_lines == "from the snapshot"
    await eventually(lambda: processes_with(harness.workspace) == [])


async def test_nothing_is_left_beside_the_layers(harness: SandboxHarness) -> None:
    harness.use_layers()
    before = set(harness.private.iterdir())
    mounts = Path("/proc/self/mountinfo").read_text()
    await harness.shell("rm kept; echo x > ~/kept")
    with pytest.raises(SandboxError):
        await harness.run("true", run_dir=harness.private / "missing")
    assert set(harness.private.iterdir()) == before
    assert Path("/proc/self/mountinfo").read_text() == mounts


async def test_a_killed_service_leaves_nothing_that_cannot_be_removed(tmp_path: Path) -> None:
    marker = ProcessMarker()
    mounts = Path("/proc/self/mountinfo").read_text()
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _SERVICE, str(tmp_path), marker.sleeper()),
        stdout=asyncio.subprocess.PIPE,
    )
    assert service.stdout is not None
    assert await service.stdout.readline() == b"running\n"
    service.kill()
    await service.wait()
    await eventually(lambda: marker.processes() == [], seconds=1)
    assert Path("/proc/self/mountinfo").read_text() == mounts
    private = tmp_path / "private-0"
    assert len(list(private.glob("*-work-*"))) == 2
    remove(private)
    assert not private.exists()


_SERVICE = """
import asyncio, sys
from pathlib import Path
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from tests.support.sandbox import SandboxHarness, unused_uid_base

async def main():
    harness = SandboxHarness(BubblewrapSandbox(unused_uid_base()), Path(sys.argv[1]))
    harness.use_layers()
    running = harness.start("rm kept ~/kept; echo up; " + sys.argv[2])
    await harness.wait_for_output(b"up")
    print("running", flush=True)
    await running

asyncio.run(main())
"""


def test_a_service_that_the_kernel_kills_first_can_use_layers(tmp_path: Path) -> None:
    """Its score is higher than that of agents, and only root may lower it."""
    script = (
        "import asyncio, sys; from pathlib import Path;"
        " from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox;"
        f" asyncio.run(BubblewrapSandbox({unused_uid_base()}).check_layers(Path(sys.argv[1])))"
    )
    subprocess.run(
        ["choom", "-n", "1000", "--", sys.executable, "-c", script, str(tmp_path)], check=True
    )


async def test_a_directory_that_is_missing_is_named(harness: SandboxHarness) -> None:
    layer = harness.layer(HOME, harness.private / "lost")
    with pytest.raises(SandboxError, match=r"(No such file or|there is no) directory.* .*lost"):
        await harness.run("true", layers=(layer,))


async def test_paths_may_contain_what_mount_options_give_a_meaning(
    harness: SandboxHarness,
) -> None:
    lower = harness.snapshot(FILES, BUILDER)
    odd = lower.rename(harness.private / 'a,b:c\\ d"')
    report = await harness.shell("cat ~/kept", layers=(harness.layer(HOME, odd, BUILDER),))
    assert report.last_lines == "kept"


@pytest.mark.parametrize("places", [("/usr",), ("/home/agent", "/home/agent")])
async def test_other_places_cannot_have_a_layer(
    harness: SandboxHarness, places: tuple[str, ...]
) -> None:
    layers = tuple(harness.layer(PurePosixPath(place), harness.private) for place in places)
    with pytest.raises(SandboxError, match="can have one layer"):
        await harness.run("true", layers=layers)


async def test_layers_need_a_sandbox(tmp_path: Path) -> None:
    harness = SandboxHarness(ProcessSandbox(), tmp_path)
    harness.use_layers()
    with pytest.raises(SandboxError, match="set sandbox"):
        await harness.run("true")
    with pytest.raises(SandboxUnavailable, match="set sandbox"):
        await harness.sandbox.check_layers(tmp_path)


async def test_a_trial_shows_whether_layers_work_and_leaves_nothing(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox(unused_uid_base())
    await sandbox.check_layers(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SandboxUnavailable, match=r"no environment can be kept in .*/missing"):
        await sandbox.check_layers(tmp_path / "missing")
