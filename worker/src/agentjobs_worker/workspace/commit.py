"""Commits what an agent changed in its tree. Does not trust the tree.

A large change is handled in a child process with limits: reading it takes long, and other jobs and
requests must not wait for it. Knows neither jobs nor platforms.
"""

import asyncio
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from agentjobs_runtime.change_rules import Protection
from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.limited_child import run_child
from agentjobs_runtime.git.limits import limit_resources
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.trees import Change, TooManyChanges, changes_between
from agentjobs_runtime.mirrors.errors import RepoUnavailable, UnsafeChange
from agentjobs_runtime.mirrors.mirror import INCOMING_PREFIX, mark_damaged, reports_damage
from agentjobs_runtime.repo_files.patterns import parse_patterns
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.workspace.change_checks import check_changes, check_tree
from agentjobs_worker.workspace.checkout import Checkout
from agentjobs_worker.workspace.staging import Stage, open_stage
from agentjobs_worker.workspace.tree_scan import exceeds, scan_tree

# A change of this size is committed in this process; the child takes 0.2 s to start.
MAX_SMALL_ENTRIES = 2_000
MAX_SMALL_PATH_BYTES = 256 * 1024
CHILD_TIMEOUT_SECONDS = 900
_COMMAND = "from agentjobs_worker.workspace.commit import main; main()"

ErrorKind = Literal["unsafe_change", "protected_path", "repo_unavailable"]


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`stage` is a directory for new objects; nothing is left in it."""

    mirror: str
    stage: str
    tree: str
    base: str
    index: str
    copied_at_ns: int
    message: bytes
    author: Identity
    committer: Identity
    protected: tuple[str, ...]
    lifted: tuple[str, ...]
    executed: tuple[str, ...]

    @property
    def checkout(self) -> Checkout:
        return Checkout(Path(self.tree), self.base, Path(self.index), self.copied_at_ns)


class CommitResponse(msgspec.Struct, frozen=True):
    """`commit` is None if nothing changed or if there is an `error`."""

    commit: str | None = None
    error: ErrorKind | None = None
    message: str = ""

    def result(self) -> str | None:
        if self.error == "repo_unavailable":
            raise RepoUnavailable(self.message)
        if self.error is not None:
            raise UnsafeChange(self.error, self.message)
        return self.commit


async def commit_changes(
    mirror: Path,
    checkout: Checkout,
    message: str,
    author: Identity,
    committer: Identity | None = None,
    *,
    protected: Sequence[str] = (),
    lifted: Sequence[str] = (),
    executed: Sequence[str] = (),
) -> str | None:
    """Commit the changes on top of the base commit, in the mirror; None if nothing changed.

    `protected` patterns come from the repository; `lifted` ones allow paths that the service
    protects by default, and `executed` are protected like these. The sandbox must be dead. Raises
    UnsafeChange, RepoUnavailable, and ValueError for an invalid pattern.
    """
    for patterns in (protected, lifted, executed):
        parse_patterns(patterns)
    request = CommitRequest(
        mirror=str(mirror),
        stage=str(mirror / f"{INCOMING_PREFIX}{secrets.token_hex(8)}"),
        tree=str(checkout.tree),
        base=checkout.commit,
        index=str(checkout.index),
        copied_at_ns=checkout.copied_at_ns,
        message=message.replace("\0", "").encode("utf-8", "replace"),
        author=author,
        committer=committer or author,
        protected=tuple(protected),
        lifted=tuple(lifted),
        executed=tuple(executed),
    )
    if await _is_large(checkout):
        return await _commit_in_child(request)
    return await _commit(request)


def main() -> None:
    """The child process: a request on stdin, the response on stdout."""
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=CommitRequest)
    sys.stdout.buffer.write(msgspec.msgpack.encode(asyncio.run(_respond(request))))


async def _is_large(checkout: Checkout) -> bool:
    """Whether the tree or what it was copied from has many files or long paths."""
    if checkout.entries > MAX_SMALL_ENTRIES:
        return True
    limits = (MAX_SMALL_ENTRIES, MAX_SMALL_PATH_BYTES)
    return await run_in_thread(exceeds, checkout.tree, *limits)


async def _commit_in_child(request: CommitRequest) -> str | None:
    command = limit_resources(sys.executable, "-I", "-c", _COMMAND)
    try:
        exit_code, response, stderr = await run_child(
            command, msgspec.msgpack.encode(request), CHILD_TIMEOUT_SECONDS
        )
    except TimeoutError:
        raise _too_expensive(f"{CHILD_TIMEOUT_SECONDS} seconds") from None
    finally:
        await run_in_thread(remove, Path(request.stage))
    if exit_code == -signal.SIGXCPU:
        raise _too_expensive("the CPU time in limit_git_cpu_seconds")
    if exit_code < 0 or "emory" in stderr:
        raise _too_expensive("the memory in limit_git_memory_mib")
    if exit_code != 0:
        raise RuntimeError(f"the process that commits changes failed: {stderr}")
    return msgspec.msgpack.decode(response, type=CommitResponse).result()


def _too_expensive(limit: str) -> UnsafeChange:
    return UnsafeChange("unsafe_change", f"Reading the change takes more than {limit}.")


async def _respond(request: CommitRequest) -> CommitResponse:
    try:
        return CommitResponse(await _commit(request))
    except UnsafeChange as error:
        return CommitResponse(None, error.code, str(error))
    except RepoUnavailable as error:
        return CommitResponse(None, "repo_unavailable", str(error))


async def _commit(request: CommitRequest) -> str | None:
    mirror, checkout = Path(request.mirror), request.checkout
    patterns = map(parse_patterns, (request.protected, request.lifted, request.executed))
    protection = Protection(*patterns)
    try:
        async with open_stage(mirror, checkout, Path(request.stage)) as stage:
            scan = await run_in_thread(scan_tree, checkout.tree, checkout.copied_at_ns)
            await check_tree(stage, scan)
            tree = await stage.add_all()
            changes = await _changes(stage, tree)
            if not changes:
                return None
            await check_changes(stage, scan, changes, protection)
            commit = await _write_commit(stage, tree, request)
            await run_in_thread(stage.accept)
            return commit
    except GitError as error:
        if reports_damage(error):
            mark_damaged(mirror)
        raise RepoUnavailable(f"the change cannot be committed: {error.reason}") from error


async def _changes(stage: Stage, tree: str) -> list[Change]:
    try:
        return await changes_between(
            stage.mirror, stage.checkout.commit, tree, environment=stage.environment
        )
    except TooManyChanges as error:
        raise UnsafeChange("unsafe_change", f"The change touches {error}.") from None


async def _write_commit(stage: Stage, tree: str, request: CommitRequest) -> str:
    created = await stage.run(
        "commit-tree",
        "-p",
        stage.checkout.commit,
        tree,
        input=request.message,
        environment=request.author.as_role("AUTHOR") | request.committer.as_role("COMMITTER"),
    )
    return created.stdout.decode("ascii").strip()
