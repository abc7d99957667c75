"""The units are valid, hardened, and let sandboxes make the calls that agents may make."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from agentjobs_worker.sandbox.allowed_calls import ALLOWED
from tests.support.paths import PROJECT

UNITS = PROJECT / "packaging" / "systemd"
PROGRAM = "/opt/agentjobs/.venv/bin/agentjobs"
# In tenths. systemd calls 1.0 to 5.0 OK.
MAX_EXPOSURE = {"agentjobs-serve": 15, "agentjobs-worker": 32, "agentjobs": 32}
# Newer than systemd's groups; a program does without them on ENOSYS.
NEW_CALLS = {"futex_requeue", "futex_wait", "futex_wake", "map_shadow_stack", "mseal"}


def analyze(*arguments: str) -> str:
    process = subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout + process.stderr


@pytest.mark.parametrize("name", MAX_EXPOSURE)
def test_a_unit_is_valid(name: str, tmp_path: Path) -> None:
    text = (UNITS / f"{name}.service").read_text()
    assert f"ExecStart={PROGRAM} " in text
    unit = tmp_path / f"{name}.service"
    unit.write_text(text.replace(PROGRAM, "/usr/bin/env"))
    assert analyze("verify", "--man=no", str(unit)) == ""


@pytest.mark.parametrize(("name", "threshold"), MAX_EXPOSURE.items())
def test_a_unit_is_hardened(name: str, threshold: int) -> None:
    report = analyze(
        "security", "--offline=true", f"--threshold={threshold}", str(UNITS / f"{name}.service")
    )
    assert re.search(r"exposure level for .*: [1-4]\.\d OK", report)


@pytest.mark.parametrize("name", ["agentjobs-worker", "agentjobs"])
def test_a_worker_lets_agents_make_every_call_that_their_sandbox_allows(name: str) -> None:
    text = (UNITS / f"{name}.service").read_text()
    (entries,) = re.findall(r"^SystemCallFilter=(.*)$", text, re.MULTILINE)
    calls = set[str]().union(*(members(entry) for entry in entries.split()))
    assert set(ALLOWED) - calls <= NEW_CALLS
    assert "SystemCallErrorNumber=ENOSYS" in text


def test_up_and_worker_have_the_same_restrictions() -> None:
    up, worker = (
        (UNITS / f"{name}.service").read_text().partition("StateDirectory=")[2]
        for name in ("agentjobs", "agentjobs-worker")
    )
    assert up == worker


@cache
def members(entry: str) -> frozenset[str]:
    if not entry.startswith("@"):
        return frozenset({entry})
    lines = analyze("syscall-filter", entry).split("\n")[1:]
    names = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    return frozenset[str]().union(*map(members, names))
