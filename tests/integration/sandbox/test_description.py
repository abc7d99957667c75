"""What `agentjobs doctor` can say about the sandbox of this machine."""

import os
import platform
from pathlib import Path

import pytest

from agentjobs.sandbox.description import RLIMITS, sandbox_facts
from agentjobs.settings import Settings


async def test_a_machine_that_can_has_no_problem_and_says_how(tmp_path: Path) -> None:
    before = Path("/proc/self/cgroup").read_text()
    facts = await sandbox_facts(Settings(data_dir=str(tmp_path), slots=4))
    assert (facts.kind, facts.problems) == ("bubblewrap", ())
    assert facts.version[0].isdigit()
    assert facts.seccomp == f"filter for {platform.machine()}"
    assert facts.limits == RLIMITS or facts.limits.startswith("cgroup v2 at /")
    assert bool(facts.notes) == (facts.limits == RLIMITS)
    as_root = "uids 900000 to 900003, one for each slot"
    assert (facts.runs_as == as_root) == (os.geteuid() == 0)
    assert Path("/proc/self/cgroup").read_text() == before


async def test_a_missing_bubblewrap_is_a_problem_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = await sandbox_facts(Settings(data_dir=str(tmp_path)))
    assert facts.version == ""
    (problem,) = facts.problems
    assert "apt-get install -y bubblewrap" in problem


async def test_no_sandbox_at_all_is_a_problem(tmp_path: Path) -> None:
    facts = await sandbox_facts(Settings(data_dir=str(tmp_path), sandbox="none"))
    assert facts.kind == "none"
    (problem,) = facts.problems
    assert "WITHOUT a sandbox" in problem


async def test_uids_that_do_not_exist_are_a_problem_for_root_only(tmp_path: Path) -> None:
    facts = await sandbox_facts(Settings(data_dir=str(tmp_path), sandbox_uid_base=2**32 - 3))
    assert bool(facts.problems) == (os.geteuid() == 0)
