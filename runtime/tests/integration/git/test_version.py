"""Which git suffices."""

import os
from pathlib import Path

import pytest

from agentjobs_runtime.git.version import UnsuitableGit, check_git


@pytest.fixture
def report_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def use(script: str) -> None:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return use


@pytest.mark.parametrize("version", ["2.38.0", "2.39.5 (Apple Git-154)", "3.0.rc1", "10.1"])
async def test_recent_versions_suffice(report_version, version: str) -> None:
    report_version(f"echo 'git version {version}'")
    assert await check_git() == version.split(maxsplit=1)[0]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo git version 2.30.2", "git 2.30.2 cannot merge pull requests: install git 2.38"),
        ("echo git version 1.9", "git 1.9 cannot merge"),
        ("echo busybox", "git busybox cannot merge"),
        ("echo libcurl is missing >&2; exit 127", "git does not run (libcurl is missing): install"),
    ],
)
async def test_other_programs_are_refused(report_version, script: str, message: str) -> None:
    report_version(script)
    with pytest.raises(UnsuitableGit) as refused:
        await check_git()
    assert message in str(refused.value)


async def test_a_machine_without_prlimit_is_told_what_to_install(
    report_version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_version("echo git version 2.39.5")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsuitableGit, match=r"'prlimit'\): install util-linux"):
        await check_git()
