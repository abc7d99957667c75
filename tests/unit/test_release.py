"""`make release`: what it refuses, what its SBOM lists, and that others can check its signature."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.lock_graph import runtime_pins
from tests.support.paths import PROJECT

SCRIPTS = ("install.py", "dist.py", "release.py")
COPIES = {
    "service/pyproject.toml": (
        '[project]\nversion = "0.2.0"\ndependencies = [\n  "agentjobs-client~=0.2.0",\n]\n'
    ),
    **{
        f"{part}/pyproject.toml": 'version = "0.2.0"\n'
        for part in ("runtime", "dependencies", "worker", "kubernetes", "clients/python")
    },
    "clients/python/src/agentjobs_client/version.py": '__version__ = "0.2.0"\n',
    "clients/typescript/package.json": '  "version": "0.2.0",\n',
    "CHANGELOG.md": "## [Unreleased]\n\n## [0.2.0] - 2026-11-17\n",
    "packaging/allowed_signers": "# Nobody yet.\n",
}


class Project:
    """A repository with the files that decide whether there is a release."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in COPIES.items():
            self.write(name, text)
        (root / "scripts").mkdir()
        for name in SCRIPTS:
            shutil.copy(PROJECT / "scripts" / name, root / "scripts")
        self.write(".gitignore", "__pycache__\n")
        self.git("init", "-q")
        self.commit("v0.2.0")

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(self.root), *arguments], check=True)

    def commit(self, tag: str) -> None:
        self.git("add", "-A")
        self.git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "x")
        self.git("-c", "tag.gpgSign=false", "tag", "--force", tag)

    def release(self, key: str = "", **environment: str) -> str:
        """The line that refuses it."""
        target = self.root / "dist"
        done = subprocess.run(
            [sys.executable, "scripts/release.py", str(target), "--key", key],
            cwd=self.root,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert not target.exists()
        return done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def create_key(path: Path) -> str:
    """The public part."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path.with_suffix(".pub").read_text()


def test_uncommitted_changes_are_refused(project: Project) -> None:
    project.write("new.txt", "")
    message = project.release()
    assert message == (
        "release: the tree has uncommitted changes (?? new.txt): commit them first\n"
    )


def test_a_commit_without_the_tag_of_its_version_is_refused(project: Project) -> None:
    project.git("tag", "--delete", "v0.2.0")
    assert "the version is 0.2.0, but the commit has no tag v0.2.0: run" in project.release()
    project.git("-c", "tag.gpgSign=false", "tag", "v0.3.0")
    assert "the version is 0.2.0, but the commit has the tag v0.3.0" in project.release()


def test_a_commit_after_the_release_of_its_version_is_refused(project: Project) -> None:
    project.write("CHANGELOG.md", "")
    project.commit("other")
    assert "the commit has no tag v0.2.0: check that tag out, or change" in project.release()


@pytest.mark.parametrize(
    "name",
    [
        "service/pyproject.toml",
        "worker/pyproject.toml",
        "clients/python/pyproject.toml",
        "clients/python/src/agentjobs_client/version.py",
        "clients/typescript/package.json",
    ],
)
def test_packages_with_other_versions_are_refused(project: Project, name: str) -> None:
    # The last one: the server's own version comes before its requirement.
    before, _, after = COPIES[name].rpartition("0.2.0")
    project.write(name, f"{before}0.1.0{after}")
    project.commit("v0.2.0")
    assert project.release() == (
        f"release: the version is 0.2.0, but {name} has 0.1.0: change one of them\n"
    )


def test_a_changelog_without_the_version_is_refused(project: Project) -> None:
    project.write("CHANGELOG.md", "## [Unreleased]\n")
    project.commit("v0.2.0")
    assert "CHANGELOG.md has no section `## [0.2.0] - DATE`: add it" in project.release()


def test_a_key_that_users_do_not_know_is_refused(project: Project, tmp_path: Path) -> None:
    assert "name the SSH key that signs: make release KEY=" in project.release()
    assert "is not an SSH key that can be read" in project.release(str(tmp_path / "none"))
    create_key(tmp_path / "key")
    assert "packaging/allowed_signers does not have the key" in project.release(
        str(tmp_path / "key")
    )


def test_missing_programs_are_named(project: Project, tmp_path: Path) -> None:
    line = "is not installed: install git and openssh-client"
    assert f"git {line}" in project.release(PATH=str(tmp_path))
    (tmp_path / "git").symlink_to(shutil.which("git") or "")
    assert f"ssh-keygen {line}" in project.release("key", PATH=str(tmp_path))


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(PROJECT / "scripts")
    import release

    return release


@pytest.fixture
def signed(release, tmp_path: Path) -> Path:
    """Two files, their checksums, and a signature of an allowed key."""
    directory = tmp_path / "dist"
    directory.mkdir()
    for name in ("a.whl", "b.tgz"):
        (directory / name).write_bytes(name.encode())
    release.write_sums(directory)
    line = f'{release.PRINCIPAL} namespaces="file" {create_key(tmp_path / "key")}'
    (tmp_path / "allowed_signers").write_text(f"# Releases:\n{line}")
    release.check_key(str(tmp_path / "key"), tmp_path / "allowed_signers")
    release.sign(directory, str(tmp_path / "key"), tmp_path / "allowed_signers")
    shutil.copy(tmp_path / "allowed_signers", directory)
    return directory


def verifies(directory: Path) -> bool:
    """With the commands that users are told to run."""
    page = (PROJECT / "docs" / "installation.md").read_text()
    (block,) = re.findall(
        r"^```sh\n(ssh-keygen -Y verify .*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    script = ["sh", "-e", "-c", block]
    return subprocess.run(script, cwd=directory, capture_output=True, check=False).returncode == 0


def test_a_release_can_be_checked_by_anyone_with_the_public_key(signed: Path) -> None:
    assert verifies(signed)
    (signed / "b.tgz").unlink()
    assert verifies(signed), "who downloads one file can check it"


@pytest.mark.parametrize("name", ["a.whl", "b.tgz", "SHA256SUMS", "SHA256SUMS.sig"])
def test_a_changed_byte_is_refused(signed: Path, name: str) -> None:
    content = bytearray((signed / name).read_bytes())
    content[len(content) // 2] ^= 1
    (signed / name).write_bytes(bytes(content))
    assert not verifies(signed)


def test_the_signature_of_another_key_is_refused(release, signed: Path, tmp_path: Path) -> None:
    create_key(tmp_path / "other")
    (signed / "SHA256SUMS.sig").unlink()
    with pytest.raises(release.Refused, match="does not verify"):
        release.sign(signed, str(tmp_path / "other"), tmp_path / "allowed_signers")
    assert not verifies(signed)


def required_by(name: str, extras: Iterable[str] = ()) -> set[str]:
    """The distributions that this one requires with these extras, directly or not."""
    names: set[str] = set()
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            names.add(canonicalize_name(requirement.name))
            names |= required_by(requirement.name, requirement.extras)
    return names


def test_the_sbom_lists_what_is_installed_and_nothing_else() -> None:
    pins = runtime_pins((PROJECT / "requirements.lock").read_text())
    own = {name for name in required_by("agentjobs") if name.startswith("agentjobs-")}
    assert set(pins) == required_by("agentjobs") - own
    assert "agentjobs-client" in pins["httpx"].required_by
    assert {"agentjobs", "agentjobs-client"} <= pins["msgspec"].required_by
    assert "agentjobs" not in pins["multidict"].required_by
