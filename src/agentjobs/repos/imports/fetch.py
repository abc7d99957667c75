"""One fetch through the tunnel while somebody looks on: tells how far it is, and gives up on what
does not get on. Knows no store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from agentjobs.git.process import GitError
from agentjobs.git.remote import Remote
from agentjobs.local_git import repositories
from agentjobs.local_git.repositories import ImportedRepository
from agentjobs.outbound.egress.tunnel import Tunnel
from agentjobs.problems import Problem
from agentjobs.repos.imports.progress import ImportProgress, Pace

Tell = Callable[[str], Awaitable[None]]

_LOOK_SECONDS = 1.0
# For what git does by itself when all has come, with the largest repository there may be.
_FINISHING_SECONDS = 1_800.0


async def fetch_watched(
    remote: Remote, directory: Path, tunnel: Tunnel, pace: Pace, tell: Tell
) -> ImportedRepository:
    """Raises Problem or GitError; the tunnel's refusal before what git makes of it."""
    progress = ImportProgress()
    fetching = asyncio.create_task(
        repositories.import_from(remote, directory, protocols="https", on_stderr=progress.note)
    )
    watching = asyncio.create_task(_watch(progress, tunnel, pace, tell))
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


async def _watch(progress: ImportProgress, tunnel: Tunnel, pace: Pace, tell: Tell) -> None:
    finishing = Pace(pace.bytes_per_second, _FINISHING_SECONDS)
    told = ""
    while True:
        received = tunnel.received_bytes
        words = progress.words(received)
        if words != told:
            await tell(words)
            told = words
        current = finishing if progress.has_everything else pace
        if current.is_too_slow(asyncio.get_running_loop().time(), received):
            raise _too_slow(current)
        await asyncio.sleep(_LOOK_SECONDS)


def _too_slow(pace: Pace) -> Problem:
    return Problem(
        "import_too_slow",
        f"Less than {pace.bytes_per_second / 1024:g} KiB a second came in the last "
        f"{pace.seconds:g} seconds, so it was given up; connect it again when its server is "
        "faster.",
    )
