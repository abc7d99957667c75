"""What `agentjobs doctor` reports about the sandbox of this machine."""

import os
import platform
from pathlib import Path

import pytest

from agentjobs.sandbox.cgroup import delegation_command
from agentjobs.sandbox.description import RLIMITS, describe_sandbox
from agentjobs.settings import Settings


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
        assert description.limits.startswith(("cgroup v2 at /", "cgroup v1 at /"))
    as_root = "uids 900000 to 900003, one for each slot"
    assert (description.runs_as == as_root) == (os.geteuid() == 0)
    assert Path("/proc/self/cgroup").read_text() == before


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
