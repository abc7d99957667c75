"""What `agentjobs doctor` reports about the sandbox of this machine."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from agentjobs_runtime.settings import Settings
from agentjobs_worker.sandbox.cgroup_delegation import delegation_command
from agentjobs_worker.sandbox.description import RLIMITS, describe_sandbox


async def test_a_capable_machine_has_no_problems(tmp_path: Path) -> None:
    before = Path("/proc/self/cgroup").read_text()
    description = await describe_sandbox(Settings(data_dir=str(tmp_path), slots=4))
    assert (description.kind, description.problems) == ("bubblewrap", ())
    assert description.version[0].isdigit()
    assert description.seccomp == f"filter for {platform.machine()}"
    if description.limits == RLIMITS:
        (note,) = description.notes
        assert delegation_command() in note
    else:
        assert description.limits.startswith("cgroup v2 at /")
    as_root = "uids 900000 to 900003, one for each slot"
    assert (description.runs_as == as_root) == (os.geteuid() == 0)
    assert Path("/proc/self/cgroup").read_text() == before
    expected = "by root, with idmapped owners" if os.geteuid() == 0 else "in a user namespace"
    assert description.environments == f"overlays {expected}"
    assert list(tmp_path.iterdir()) == []


async def test_a_machine_without_environments_runs_agents_nevertheless(tmp_path: Path) -> None:
    """A data directory on another overlay, as in a container."""
    script = (
        "import asyncio, sys; from agentjobs_runtime.settings import Settings;"
        " from agentjobs_worker.sandbox.description import describe_sandbox;"
        " found = asyncio.run(describe_sandbox(Settings(data_dir=sys.argv[1])));"
        " print(repr(found.environments), found.problems, found.notes[-1])"
    )
    described = on_an_overlay(tmp_path, sys.executable, "-c", script)
    assert described.startswith("'' () repositories cannot have an environment on this machine")
    assert "move the data directory" in described
    assert "a volume is" in described


async def test_a_missing_bubblewrap_is_a_problem_with_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    description = await describe_sandbox(Settings(data_dir=str(tmp_path)))
    assert description.version == ""
    (problem,) = description.problems
    assert "apt-get install -y bubblewrap" in problem


async def test_running_without_a_sandbox_is_a_problem(tmp_path: Path) -> None:
    description = await describe_sandbox(Settings(data_dir=str(tmp_path), sandbox="none"))
    assert description.kind == "none"
    (problem,) = description.problems
    assert "WITHOUT a sandbox" in problem


async def test_uids_out_of_range_are_a_problem_for_root_only(tmp_path: Path) -> None:
    description = await describe_sandbox(
        Settings(data_dir=str(tmp_path), sandbox_uid_base=2**32 - 3)
    )
    assert bool(description.problems) == (os.geteuid() == 0)


def on_an_overlay(directory: Path, *command: str) -> str:
    """The output of a command whose last argument is a directory that does not support layers."""
    for name in ("lower", "upper", "work", "merged"):
        (directory / name).mkdir()
    options = "lowerdir=lower,upperdir=upper,workdir=work"
    own_user = f"unshare -U --map-user={os.getuid()} --map-group={os.getgid()}"
    if os.geteuid() == 0:
        namespace, run = ["unshare", "-m"], ""
    else:
        namespace, run, options = ["unshare", "-Urm"], own_user, f"{options},userxattr"
    mount = f'mount -t overlay overlay -o {options} merged && exec {run} "$@" "$PWD/merged"'
    arguments = [*namespace, "sh", "-c", mount, "sh", *command]
    ended = subprocess.run(arguments, cwd=directory, capture_output=True, text=True, check=True)
    return ended.stdout
