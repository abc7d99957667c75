"""Pushes a commit to a branch or another ref, deletes these, and reads the head of a branch.

Knows neither jobs nor platforms: callers pass names and addresses.
"""

import contextlib
from pathlib import Path

from agentjobs_runtime.git.process import GitError, git
from agentjobs_runtime.git.refs import resolve
from agentjobs_runtime.git.remote import NETWORK_PROTOCOLS, Remote, is_access_denied, is_branch_name
from agentjobs_runtime.mirrors.errors import (
    PushDenied,
    PushRejected,
    RepoUnavailable,
    repo_unavailable,
)
from agentjobs_runtime.mirrors.mirror import fetch_ref
from agentjobs_runtime.mirrors.push_refusals import explain_refusal, explain_size

PUSH_TIMEOUT_SECONDS = 1_800
LIST_TIMEOUT_SECONDS = 60


async def push(
    mirror: Path, commit: str, branch: str, remote: Remote, *, expected: str | None
) -> bool:
    """Set the remote branch to this commit if it is still at `expected` (None: it does not exist).

    False if it is at this commit already. Raises PushRejected if the remote refuses, and
    RepoUnavailable if it does not respond.
    """
    return await _push_branch(mirror, commit, branch, remote, expected or "")


async def delete_branch(git_dir: Path, branch: str, remote: Remote, *, expected: str) -> None:
    """Delete the remote branch if it is still at `expected`, which `git_dir` need not have.

    Raises PushRejected if the remote refuses and RepoUnavailable if it does not respond.
    """
    await _push_branch(git_dir, "", branch, remote, expected)


async def push_ref(git_dir: Path, source: str, ref: str, remote: Remote) -> None:
    """Set or delete a ref that is no branch, wherever it is now; an empty `source` deletes it.

    Raises PushRejected if the remote refuses and RepoUnavailable if it does not respond.
    """
    await _push(git_dir, f"+{source}:{ref}", remote)


async def _push_branch(
    git_dir: Path, source: str, branch: str, remote: Remote, expected: str
) -> bool:
    ref = f"refs/heads/{branch}"
    if not is_branch_name(branch):
        raise PushRejected(f"{branch!r} is not a branch name")
    return await _push(git_dir, f"{source}:{ref}", remote, f"--force-with-lease={ref}:{expected}")


async def _push(git_dir: Path, refspec: str, remote: Remote, *options: str) -> bool:
    """Whether the ref has changed."""
    try:
        pushed = await git(
            "push",
            "--porcelain",
            "--no-verify",
            "--no-follow-tags",
            *options,
            "--",
            remote.url,
            refspec,
            git_dir=git_dir,
            configuration=remote.configuration,
            environment=remote.environment,
            protocols=NETWORK_PROTOCOLS,
            timeout_seconds=PUSH_TIMEOUT_SECONDS,
            allowed_exit_codes=(0, 1),
        )
    except GitError as error:
        raise _push_failure(remote, error) from None
    report = pushed.stdout.decode("utf-8", "replace")
    if any(line.startswith("!") for line in report.splitlines()):
        refusal = explain_refusal(report, pushed.stderr)
        if refusal.is_temporary:
            raise RepoUnavailable(refusal.message, is_temporary=True)
        raise PushRejected(refusal.message)
    if pushed.exit_code != 0:
        raise _push_failure(remote, GitError(("push",), pushed.exit_code, pushed.stderr))
    return not any(line.startswith("=") for line in report.splitlines())


async def branch_head(remote: Remote, branch: str) -> str | None:
    """The commit of the remote branch, or None. Raises RepoUnavailable."""
    ref = f"refs/heads/{branch}"
    if not is_branch_name(branch):
        return None
    try:
        listed = await git(
            "ls-remote",
            "--quiet",
            "--",
            remote.url,
            ref,
            configuration=remote.configuration,
            environment=remote.environment,
            protocols=NETWORK_PROTOCOLS,
            timeout_seconds=LIST_TIMEOUT_SECONDS,
        )
    except GitError as error:
        raise repo_unavailable("the repository cannot be reached", remote, error) from None
    # The argument also matches the end of longer names.
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        commit, _, name = line.partition("\t")
        if name == ref:
            return commit
    return None


def _push_failure(remote: Remote, error: GitError) -> PushRejected | RepoUnavailable:
    if too_large := explain_size(error.stderr):
        return PushRejected(too_large.message)
    if is_access_denied(error.stderr) and not remote.is_fresh:
        return PushDenied(f"the push was not allowed: {error.reason}")
    return repo_unavailable("the branch cannot be pushed", remote, error)


async def download_commit(mirror: Path, ref: str, remote: Remote) -> str:
    """The commit of the ref, which the mirror has afterwards. Raises RepoUnavailable."""
    try:
        await fetch_ref(mirror, remote, f"+{ref}:{ref}")
        commit = await resolve(mirror, ref)
    except GitError as error:
        raise repo_unavailable("the commit cannot be fetched", remote, error) from None
    finally:
        with contextlib.suppress(GitError):
            await git("update-ref", "-d", ref, git_dir=mirror)
    if commit is None:
        raise RepoUnavailable(f"{ref} does not name a commit")
    return commit
