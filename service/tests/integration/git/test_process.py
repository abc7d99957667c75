"""Running git: what its environment prevents, how it ends, what its errors say."""

import asyncio
import os
from pathlib import Path

import pytest

from agentjobs_runtime.git.child import LoopPipe
from agentjobs_runtime.git.environment import git_environment
from agentjobs_runtime.git.process import GitError, GitTimeout, git, open_git, stop_git
from agentjobs_runtime.git.refs import default_branch, has_commit, list_branches, resolve
from agentjobs_runtime.git.remote import Remote
from tests.support.delivery_attempts import LOOPS, Run
from tests.support.workspace import run_git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    run_git(path, "init", "-q", "-b", "trunk")
    (path / "a.txt").write_text("a\n")
    run_git(path, "add", "-A")
    run_git(path, "commit", "-q", "-m", "first")
    run_git(path, "branch", "side/branch")
    return path


def test_the_environment_is_built_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "touch /tmp/x")
    monkeypatch.setenv("GIT_TRACE_CURL", "1")
    monkeypatch.delenv("GIT_SSL_CAINFO", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/company.pem")
    variables = git_environment()
    assert "GIT_SSH_COMMAND" not in variables
    assert "GIT_TRACE_CURL" not in variables
    assert variables["GIT_SSL_CAINFO"] == "/etc/company.pem"
    assert variables["GIT_ALLOW_PROTOCOL"] == ""


@pytest.mark.parametrize("address", ["file:///tmp", "ext::sh -c touch% /tmp/x", "ssh://host/x"])
async def test_no_protocol_is_allowed_by_default(tmp_path: Path, address: str) -> None:
    with pytest.raises(GitError, match="not allowed"):
        await git("ls-remote", "--", address)


async def test_the_users_configuration_is_ignored(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    (tmp_path / ".gitconfig").write_text(f"[core]\n\tfsmonitor = touch {canary}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / ".gitconfig"))
    await git("status", git_dir=repository / ".git", work_tree=repository, cwd=repository)
    assert not canary.exists()


async def test_a_bare_repository_is_never_discovered(repository: Path) -> None:
    with pytest.raises(GitError, match="cannot use bare repository"):
        await git("rev-parse", "HEAD", cwd=repository / ".git")


async def test_an_error_has_a_reason_without_credentials() -> None:
    with pytest.raises(GitError) as caught:
        await git(
            "ls-remote",
            "--",
            "http://user:sesame@127.0.0.1:1/x",
            protocols="http",
            timeout_seconds=20,
        )
    error = caught.value
    assert "sesame" not in f"{error} {error.stderr} {error.arguments}"
    assert "127.0.0.1" in error.reason


def test_the_repr_of_a_remote_hides_its_authorization() -> None:
    assert "sesame" not in repr(Remote("http://host/x", "Basic sesame"))


async def test_a_timed_out_command_is_killed_with_its_children(
    repository: Path, tmp_path: Path
) -> None:
    marker = tmp_path / "pid"
    alias = f"!echo $$ > {marker}; sleep 600"
    with pytest.raises(GitTimeout):
        await git(
            "linger",
            git_dir=repository / ".git",
            configuration={"alias.linger": alias},
            timeout_seconds=1,
        )
    assert await _is_gone(int(marker.read_text()))


async def test_cancelling_the_caller_kills_the_command(repository: Path, tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    alias = f"!echo $$ > {marker}.new; mv {marker}.new {marker}; sleep 600"
    task = asyncio.create_task(
        git("linger", git_dir=repository / ".git", configuration={"alias.linger": alias})
    )
    async with asyncio.timeout(60):
        while not marker.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await _is_gone(int(marker.read_text()))


async def test_cancelling_at_any_moment_of_the_start_leaves_no_process(
    repository: Path, tmp_path: Path
) -> None:
    for steps in range(8):
        marker = tmp_path / f"pid{steps}"
        alias = f"!echo $$ > {marker}; exec sleep 600"
        task = asyncio.create_task(
            git("linger", git_dir=repository / ".git", configuration={"alias.linger": alias})
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        started = marker.read_text().strip() if marker.exists() else ""
        assert not started or await _is_gone(int(started))


async def test_a_stream_can_be_stopped_early(repository: Path) -> None:
    process = await open_git("cat-file", "--batch", git_dir=repository / ".git")
    await stop_git(process)
    assert process.returncode is not None


async def test_input_that_is_not_read_completely_is_no_error(repository: Path) -> None:
    result = await git("version", git_dir=repository / ".git", input=b"x" * 1_000_000)
    assert result.stdout.startswith(b"git version")


async def test_branches_and_commits_are_read(repository: Path) -> None:
    git_dir = repository / ".git"
    commit = run_git(repository, "rev-parse", "HEAD")
    assert await resolve(git_dir, "trunk") == commit
    assert await resolve(git_dir, "missing") is None
    assert await resolve(git_dir, "--all") is None
    assert await has_commit(git_dir, commit)
    assert not await has_commit(git_dir, "1" * 40)
    assert await list_branches(git_dir) == {"trunk": commit, "side/branch": commit}
    assert await default_branch(git_dir) == "trunk"


async def _is_gone(pid: int) -> bool:
    """A killed process may remain for a moment until its parent reaps it."""
    async with asyncio.timeout(60):
        while True:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return True
            if state == "Z":
                return True
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("run", LOOPS)
def test_closing_a_pipe_closes_no_file_of_another_thread(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop has closed the number by then, and the next open file gets it."""
    opened: list[int] = []
    close = LoopPipe.close

    def close_when_others_open(pipe: LoopPipe) -> None:
        opened.append(os.open(os.devnull, os.O_RDONLY))
        close(pipe)

    monkeypatch.setattr(LoopPipe, "close", close_when_others_open)
    run(git("version", input=b""))
    assert len(opened) == 3
    for descriptor in opened:
        os.fstat(descriptor)
        os.close(descriptor)
