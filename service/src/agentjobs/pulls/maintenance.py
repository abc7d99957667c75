"""Packs the refs and objects of bare repositories, those of platforms included."""

import asyncio
import logging
from pathlib import Path

from agentjobs.fleet.repository_lease import changing_repository
from agentjobs.local_git.repositories import collect_garbage, pack_refs, remove_leftovers
from agentjobs.store.database import Database
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.problems import Problem

_log = logging.getLogger(__name__)


async def tidy_repositories(db: Database, root: Path) -> None:
    for git_dir in sorted(root.glob("[!.]*.git")):
        try:
            async with changing_repository(db, git_dir.name.removesuffix(".git")):
                for name in await asyncio.to_thread(remove_leftovers, git_dir):
                    _log.warning("removed %s of %s, which a killed git left", name, git_dir.name)
                await pack_refs(git_dir)
            await collect_garbage(git_dir)
        except (GitError, Problem) as error:
            _log.warning("the maintenance of the repository %s failed: %s", git_dir.name, error)
