"""The build that the program names: recorded in a package, asked of git in a checkout."""

import subprocess
import sys
from types import ModuleType

import pytest

from agentjobs import build_info
from agentjobs.build_info import describe_build
from tests.support.paths import PROJECT

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _forget_the_build():
    describe_build.cache_clear()
    yield
    describe_build.cache_clear()


def add_record(monkeypatch, *, is_changed: bool) -> None:
    record = ModuleType("agentjobs.build_record")
    record.__dict__.update(COMMIT=COMMIT, DATE="2026-11-17", IS_CHANGED=is_changed)
    monkeypatch.setitem(sys.modules, record.__name__, record)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one commit, as the place of the program."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    dates = {"GIT_COMMITTER_DATE": "2026-11-17T10:00:00Z", "GIT_CONFIG_GLOBAL": "/dev/null"}
    for arguments in (("init", "-q"), (*identity, "commit", "-qm", "First", "--allow-empty")):
        subprocess.run(["git", *arguments], cwd=tmp_path, env=dates, check=True)
    monkeypatch.setattr(build_info, "_ROOT", tmp_path)
    head = ["git", "-C", str(tmp_path), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()


def test_a_package_names_its_commit_and_date(monkeypatch):
    add_record(monkeypatch, is_changed=False)
    assert describe_build().endswith(" (commit 0123456789ab, 2026-11-17)")


def test_a_package_with_uncommitted_changes_says_so(monkeypatch):
    add_record(monkeypatch, is_changed=True)
    assert describe_build().endswith(" (commit 0123456789ab with changes, 2026-11-17)")


def test_a_checkout_names_its_last_commit(checkout):
    assert describe_build().endswith(f" (development, after commit {checkout}, 2026-11-17)")


def test_variables_of_a_git_hook_do_not_change_the_answer(checkout, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert checkout in describe_build()


def test_without_git_a_checkout_is_just_development(checkout, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_build().endswith(" (development)")


def test_a_checkout_that_git_cannot_read_is_just_development(checkout, tmp_path):
    (tmp_path / ".git" / "HEAD").write_text("nonsense")
    assert describe_build().endswith(" (development)")


def test_a_checkout_is_found_from_the_source() -> None:
    assert build_info._ROOT == PROJECT
