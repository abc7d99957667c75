"""A whole release, built twice: the same commit gives the same bytes, wherever it is built."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installed_program import run
from tests.support.paths import NODE_BIN, PARTS, PROJECT, VERSION

NODE_MODULES = Path("clients") / "typescript" / "node_modules"
# Not buildah: tests/container builds the image.
PROGRAMS = ("git", "ssh-keygen", "sh", "cp", "node", "npm", "env")
SIGNATURE = "SHA256SUMS.sig"
OTHER_PARTS = (f"agentjobs_{part}" for part in PARTS if part != "service")
DISTRIBUTIONS = ("agentjobs", "agentjobs_client", *OTHER_PARTS)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose last commit is the release of its version, signed with `key` beside it."""
    root = tmp_path_factory.mktemp("tagged") / "repository"
    run("git", "clone", "-q", PROJECT, root, cwd=root.parent)
    key = root.parent / "key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key, cwd=root)
    with (root / "packaging" / "allowed_signers").open("a") as signers:
        public = key.with_suffix(".pub").read_text()
        signers.write(f'releases@agentjobs namespaces="file" {public}')
    with (root / "CHANGELOG.md").open("a") as changelog:
        changelog.write(f"\n## [{VERSION}] - 2026-11-17\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    run("git", *identity, "commit", "-qam", f"Release {VERSION}", cwd=root)
    run("git", "-c", "tag.gpgSign=false", "tag", f"v{VERSION}", cwd=root)
    return root


def build(tagged: Path, directory: Path, mask: str) -> Path:
    """The files of a release that is built in a clone of its own."""
    directory.mkdir()
    run("sh", "-c", f"umask {mask}; git clone -q {tagged} clone", cwd=directory)
    clone = directory / "clone"
    shutil.copytree(PROJECT / NODE_MODULES, clone / NODE_MODULES, symlinks=True)
    programs = directory / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        path = shutil.which(name, path=f"{NODE_BIN}{os.pathsep}{os.environ['PATH']}")
        assert path is not None
        (programs / name).symlink_to(path)
    release = f"umask {mask}; {sys.executable} scripts/release.py dist --key {tagged.parent}/key"
    environment = {"PATH": str(programs), "HOME": str(directory)}
    run("sh", "-c", release, cwd=clone, **environment)
    return clone / "dist"


@pytest.fixture(scope="module")
def release(tagged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tagged, tmp_path_factory.mktemp("first") / "build", "022")


def test_a_release_has_packages_dependencies_sbom_checksums_and_signature(release: Path) -> None:
    assert {path.name for path in release.iterdir()} == {
        *(f"{name}-{VERSION}-py3-none-any.whl" for name in DISTRIBUTIONS),
        *(f"{name}-{VERSION}.tar.gz" for name in DISTRIBUTIONS),
        f"agentjobs-{VERSION}-requirements.txt",
        f"agentjobs-{VERSION}.cdx.json",
        f"agentjobs-client-{VERSION}.tgz",
        "SHA256SUMS",
        SIGNATURE,
    }
    checked = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=release)
    assert checked.count(": OK\n") == len(list(release.iterdir())) - 2


def test_another_build_of_the_commit_gives_the_same_bytes(
    tagged: Path, release: Path, tmp_path: Path
) -> None:
    again = build(tagged, tmp_path / "build", "077")
    for path in release.iterdir():
        if path.name != SIGNATURE:
            assert path.read_bytes() == (again / path.name).read_bytes(), path.name


def test_the_sbom_names_the_packages_with_their_hashes(release: Path) -> None:
    document = json.loads((release / f"agentjobs-{VERSION}.cdx.json").read_text())
    sums = (release / "SHA256SUMS").read_text()
    server = document["metadata"]["component"]
    assert (server["name"], server["version"]) == ("agentjobs", VERSION)
    own = [server, *(part for part in document["components"] if "hashes" in part)]
    python = {name.replace("_", "-") for name in DISTRIBUTIONS}
    assert {component["name"] for component in own} == {*python, "client"}
    for component in own:
        assert component["hashes"][0]["content"] in sums
    required = {each["ref"]: each.get("dependsOn", []) for each in document["dependencies"]}
    parts = {f"pkg:pypi/{name}@{VERSION}" for name in python - {"agentjobs"}}
    assert parts <= set(required[f"pkg:pypi/agentjobs@{VERSION}"])


def test_a_release_that_is_killed_leaves_the_last_one(tagged: Path, tmp_path: Path) -> None:
    run("git", "clone", "-q", tagged, "clone", cwd=tmp_path)
    clone = tmp_path / "clone"
    shutil.copytree(PROJECT / NODE_MODULES, clone / NODE_MODULES, symlinks=True)
    (clone / "dist").mkdir()
    (clone / "dist" / "last").touch()
    command = [sys.executable, "scripts/release.py", "dist", "--key", tagged.parent / "key"]
    process = subprocess.Popen(command, cwd=clone, start_new_session=True)
    try:
        while not list(clone.glob(".dist-*/dist/*.whl")):
            assert process.poll() is None
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    assert [path.name for path in (clone / "dist").iterdir()] == ["last"]
    assert run("git", "status", "--porcelain", cwd=clone) == ""
