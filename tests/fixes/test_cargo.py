"""Fixes of Cargo.lock with the real cargo, which then reads the lock file as it is."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from agentjobs.agents.cve_fixer_support import find_fixer_tools
from tests.support.fixer_project import FixerProject

MANIFEST = """\
[package]
name = "app"
version = "0.1.0"
edition = "2021"

[dependencies]
smallvec = "{requirement}"
"""
SMALLVEC = ("smallvec", "1.6.0", "1.6.1")


def cargo(project: FixerProject, *arguments: str) -> str:
    (program,) = find_fixer_tools().commands["cargo"]
    environment = {
        **os.environ,
        "RUSTC": str(Path(program).with_name("rustc")),
        "RUSTC_WRAPPER": "",
    }
    result = subprocess.run(
        [program, *arguments],
        cwd=project.tree,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return result.stdout


@pytest.fixture
def project(tmp_path: Path) -> FixerProject:
    """A lock file with an old version that the manifest does not require."""
    files = {
        "Cargo.toml": MANIFEST.format(requirement="=1.6.0"),
        "src/main.rs": "fn main() {}\n",
        # A build would run this.
        ".cargo/config.toml": '[build]\nrustc-wrapper = "./trap"\n',
        "trap": "#!/bin/sh\ntouch ran\n",
    }
    project = FixerProject(tmp_path, "crates.io", files)
    (project.tree / "trap").chmod(0o755)
    cargo(project, "generate-lockfile")
    (project.tree / "Cargo.toml").write_text(MANIFEST.format(requirement="1"))
    return project


def locked(project: FixerProject) -> dict[str, str]:
    metadata = json.loads(cargo(project, "metadata", "--locked", "--format-version", "1"))
    return {package["name"]: package["version"] for package in metadata["packages"]}


def test_cargo_accepts_the_updated_lock_file(project: FixerProject) -> None:
    before = project.read("Cargo.lock")
    assert "Update smallvec to 1.6.1" in project.fix("Cargo.lock", SMALLVEC)
    assert locked(project)["smallvec"] == "1.6.1"
    assert len(project.read("Cargo.lock").splitlines()) == len(before.splitlines())
    assert not (project.tree / "ran").exists()


def test_a_version_that_the_manifest_does_not_allow_is_not_proposed(project: FixerProject) -> None:
    (project.tree / "Cargo.toml").write_text(MANIFEST.format(requirement="=1.6.0"))
    before = project.read("Cargo.lock")
    report = project.fix("Cargo.lock", SMALLVEC)
    assert "No vulnerable package could be updated" in report
    assert "required by package" in report
    assert project.read("Cargo.lock") == before
