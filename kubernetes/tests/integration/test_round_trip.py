"""Directories go to a real supervisor and come back changed, over several runs."""

import asyncio
import itertools
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentjobs_kubernetes.download import TransferLimits, deleted_record, download_changes
from agentjobs_worker.sandbox.protocol import UnusableResult
from tests.support.pod_files import LIMITS, MemoryStream, upload
from tests.support.supervisor import command, running_supervisor, shell
from tests.support.supervisor_client import SupervisorClient, closing
from tests.support.trees import describe_tree

SEEDS = range(3)
# The pod sees the machine's own, and not that of a virtual environment.
PYTHON = f"{sys.base_prefix}/bin/python3"
# Random changes of every kind, of new files and of those that were there.
CHANGES = r"""
import os, random, shutil, sys
choose = random.Random(int(sys.argv[1]))
NAMES = ["a", "b", "c", "new\nline", os.fsdecode(b"\xff"), "n" * 200]

def paths():
    yield "."
    for top, directories, files in os.walk("."):
        for name in sorted(directories) + sorted(files):
            yield os.path.join(top, name)

def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)

for number in range(15):
    path = choose.choice(sorted(paths()))
    parent = path if os.path.isdir(path) and not os.path.islink(path) else os.path.dirname(path)
    new = os.path.join(parent, choose.choice(NAMES))
    action = choose.choice(["write", "write", "mkdir", "remove", "move", "link", "chmod"])
    if action == "chmod" and path != "." and not os.path.islink(path):
        os.chmod(path, choose.choice([0o755, 0o700, 0o777] if os.path.isdir(path) else
            [0o644, 0o755, 0o400]))
    elif action == "remove" and path != ".":
        remove(path)
    elif action == "move" and path != "." and not new.startswith(path):
        remove(new)
        os.rename(path, new)
    elif action in ("write", "mkdir", "link"):
        if os.path.isdir(new) and action == "mkdir":
            continue
        remove(new)
        if action == "write":
            with open(new, "w") as file:
                file.write(str(number) * choose.choice([0, 1, 1000, 100_000]))
        elif action == "mkdir":
            os.mkdir(new)
        else:
            os.symlink(choose.choice(["a", "../..", "/etc", "x" * 300]), new)
"""


async def run_in_pod(pod: Path, command: dict[str, object], *sources: Path) -> None:
    """A pod that begins with the sources, the last of which gets what the command changes.

    `pod` is a new directory, in which the pod's own `workspace` stays to be seen.
    """
    archives = [await upload(source) for source in sources]
    lower = sources[0] if len(sources) > 1 else None

    def run() -> bytes:
        with running_supervisor(pod) as supervisor, closing(supervisor.connect()) as client:
            _send(client, archives, sources)
            ended = client.run(command)
            assert ended["exit_code"] == 0, bytes(client.output).decode()
            return client.changes()

    changes = MemoryStream(await asyncio.to_thread(run))
    await download_changes(changes, sources[-1], TransferLimits.of(LIMITS), lower=lower)


def _send(client: SupervisorClient, archives: list[bytes], sources: Sequence[Path]) -> None:
    """As a worker does."""
    *lower, upper = archives
    for archive in lower:
        client.upload(archive, track=False)
    record = deleted_record(sources[-1])
    if record.exists():
        deleted = b"".join(path + b"\0" for path in record.read_bytes().split(b"\0"))
        client.upload(deleted, kind="remove")
    client.upload(upper)


async def next_pod_sees(directory: Path, *sources: Path) -> dict[bytes, tuple[str, bytes]]:
    archives = [await upload(source) for source in sources]

    def run() -> None:
        with running_supervisor(directory) as supervisor, closing(supervisor.connect()) as client:
            _send(client, archives, sources)

    await asyncio.to_thread(run)
    return content_of(directory / "workspace")


def content_of(root: Path) -> dict[bytes, tuple[str, bytes]]:
    content = {}
    for path in root.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            data = os.fsencode(path.readlink())
        else:
            data = path.read_bytes() if stat.S_ISREG(mode) else b""
        content[os.fsencode(path.relative_to(root))] = (stat.filemode(mode), data)
    return content


def make_tree(root: Path) -> Path:
    for first, second in itertools.product("abc", "abc"):
        (root / first / second).mkdir(parents=True)
        for name in "abc":
            (root / first / second / name).write_text(first + second + name)
    (root / "link").symlink_to("../a")
    return root


@pytest.mark.parametrize("has_layer", [False, True], ids=["directory", "layer"])
async def test_the_next_pod_begins_as_the_last_one_ended(tmp_path: Path, has_layer: bool) -> None:
    upper = tmp_path / "upper"
    upper.mkdir()
    lower = make_tree(tmp_path / "lower" if has_layer else upper)
    sources = (lower, upper) if has_layer else (upper,)
    before = describe_tree(lower)
    for number in SEEDS:
        pod = tmp_path / f"pod-{number}"
        await run_in_pod(pod, command(PYTHON, "-I", "-c", CHANGES, str(number)), *sources)
        after = content_of(pod / "workspace")
        assert after
        assert await next_pod_sees(tmp_path / f"next-{number}", *sources) == after
    assert not has_layer or describe_tree(lower) == before


async def test_a_tree_that_the_agent_closed_comes_back(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    script = (
        "echo changed > a/a/a; mkdir closed; echo x > closed/x; chmod 000 a/a/a a closed/x closed"
    )
    await run_in_pod(tmp_path / "pod", shell(script), tree)
    assert (tree / "a" / "a" / "a").read_text() == "changed\n"
    assert (tree / "closed" / "x").read_text() == "x\n"


async def test_new_special_files_do_not_come_back(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    script = "mkfifo pipe; ln a/a/a hard; rm -r b c; ln -s /etc b; mkfifo c"
    await run_in_pod(tmp_path / "pod", shell(script), tree)
    assert sorted(path.name for path in tree.iterdir()) == ["a", "b", "hard", "link"]
    assert (tree / "b").readlink() == Path("/etc")
    assert (tree / "hard").stat().st_nlink == 1


@pytest.mark.parametrize("name", ["link", "a/a/a"])
async def test_a_special_file_instead_of_another_is_refused(tmp_path: Path, name: str) -> None:
    tree = make_tree(tmp_path / "tree")
    with pytest.raises(UnusableResult, match="special file"):
        await run_in_pod(tmp_path / "pod", shell(f"rm -r {name}; mkfifo {name}"), tree)
