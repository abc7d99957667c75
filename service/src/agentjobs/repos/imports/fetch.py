"""Fetches a repository through the tunnel, reports progress and aborts transfers that are too slow.

Does not know the store.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from agentjobs.local_git import repositories
from agentjobs.local_git.repositories import ImportedRepository
from agentjobs.repos.imports.progress import ImportProgress, MinTransferRate
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.outbound.egress.tunnel import Tunnel
from agentjobs_runtime.problems import Problem

ReportProgress = Callable[[str], Awaitable[None]]

_POLL_SECONDS = 1.0
# Enough for git to process the largest allowed repository after the last byte has arrived.
_PROCESSING_SECONDS = 1_800.0


async def fetch_with_progress(
    remote: Remote,
    directory: Path,
    tunnel: Tunnel,
    min_rate: MinTransferRate,
    report: ReportProgress,
) -> ImportedRepository:
    """Raises Problem or GitError; a refusal by the tunnel takes precedence over git's error."""
    progress = ImportProgress()
    fetching = asyncio.create_task(
        repositories.import_from(remote, directory, protocols="https", on_stderr=progress.feed)
    )
    watching = asyncio.create_task(_watch(progress, tunnel, min_rate, report))
    try:
        await asyncio.wait((fetching, watching), return_when=asyncio.FIRST_COMPLETED)
        if not fetching.done():
            watching.result()
        return await fetching
    except (Problem, GitError):
        if tunnel.refusal is not None:
            raise Problem("address_refused", tunnel.refusal) from None
        raise
    finally:
        for task in (fetching, watching):
            task.cancel()
        await asyncio.gather(fetching, watching, return_exceptions=True)


async def _watch(
    progress: ImportProgress, tunnel: Tunnel, min_rate: MinTransferRate, report: ReportProgress
) -> None:
    processing = MinTransferRate(min_rate.bytes_per_second, _PROCESSING_SECONDS)
    reported = ""
    while True:
        received = tunnel.received_bytes
        message = progress.message(received)
        if message != reported:
            await report(message)
            reported = message
        current = processing if progress.is_transferred else min_rate
        if current.is_too_slow(asyncio.get_running_loop().time(), received):
            raise _too_slow(current)
        await asyncio.sleep(_POLL_SECONDS)


def _too_slow(min_rate: MinTransferRate) -> Problem:
    return Problem(
        "import_too_slow",
        f"The server sent less than {min_rate.bytes_per_second / 1024:g} KiB/s over the last "
        f"{min_rate.seconds:g} seconds, so the import was stopped; try again later.",
    )
