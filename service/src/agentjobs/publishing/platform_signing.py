"""Lets the platform make and sign a job's commit, for connections that are set to that."""

import contextlib
import dataclasses
from contextlib import AbstractAsyncContextManager

from agentjobs.connections.connections import load_connection
from agentjobs.platforms.protocol import NewCommit, PlatformError, SigningPlatform
from agentjobs.publishing.context import ServiceRun
from agentjobs.publishing.earlier_attempt import PushedWork, find_own_commit
from agentjobs.publishing.hosted_repo import HostedRepo
from agentjobs.publishing.retry import retry_while_unreachable
from agentjobs_runtime.git.process import git
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.mirrors.errors import PushDenied, PushRejected, RepoUnavailable
from agentjobs_runtime.mirrors.publish import download_commit, push_ref


async def sign_by_platform(run: ServiceRun, repo: HostedRepo, work: PushedWork) -> PushedWork:
    """The same change as a commit of the platform; the work itself if the platform does not sign.

    Work that is kept is signed when it is published. Raises RepoUnavailable, and PlatformError and
    PushDenied if the platform may sign it later.
    """
    adapter = repo.adapter
    connection_id = run.job.connection_id
    if connection_id is None or not isinstance(adapter, SigningPlatform):
        return work
    connection = await load_connection(run.db, connection_id)
    if connection is None or connection.signing != "platform":
        return work
    try:
        commit = await retry_while_unreachable(
            lambda: _sign(run, repo, adapter, work), run.log.note
        )
    except PushDenied:
        raise
    except (PlatformError, PushRejected) as error:
        if isinstance(error, PlatformError) and (error.is_temporary or error.is_of_connection):
            raise
        await run.warn(f"The platform did not sign the commit: {run.log.redact(str(error))}")
        return work
    run.log.note(f"the platform signed {work.commit[:12]} as {commit[:12]}")
    return dataclasses.replace(work, commit=commit)


async def _sign(
    run: ServiceRun, repo: HostedRepo, adapter: SigningPlatform, work: PushedWork
) -> str:
    await repo.check_claim()
    ref = f"refs/agentjobs/unsigned/{run.job.id}"
    # The platform needs the files of the change before it can make a commit of them.
    async with _remote(run, repo) as remote:
        await push_ref(run.mirror, work.commit, ref, remote)
    # Tokens may expire while a platform is busy: each step has its own connection.
    try:
        commit = await _new_commit(run, work)
        await adapter.create_signed_commit(repo.address, ref, commit)
        async with _remote(run, repo) as remote:
            signed = await download_commit(run.mirror, ref, remote)
    finally:
        with contextlib.suppress(PushRejected, RepoUnavailable, PlatformError):
            async with _remote(run, repo) as remote:
                await push_ref(run.mirror, "", ref, remote)
    await _check_same_change(run, work, commit, signed)
    return signed


def _remote(run: ServiceRun, repo: HostedRepo) -> AbstractAsyncContextManager[Remote]:
    return repo.adapter.open_remote(repo.address, run.job.credential)


async def _new_commit(run: ServiceRun, work: PushedWork) -> NewCommit:
    shown = await git("show", "-s", "--format=%T%n%B", work.commit, git_dir=run.mirror)
    tree, _, message = shown.stdout.decode("utf-8", "replace").partition("\n")
    return NewCommit(tree, work.base, message.rstrip() + "\n")


async def _check_same_change(
    run: ServiceRun, work: PushedWork, commit: NewCommit, signed: str
) -> None:
    shown = await git("show", "-s", "--format=%T", signed, git_dir=run.mirror)
    own = await find_own_commit(run.mirror, signed, run.job)
    is_own = own is not None and (own.base, own.commit) == (work.base, signed)
    if not is_own or shown.stdout.decode().strip() != commit.tree:
        raise PlatformError("The platform made another commit than it was asked for.")
