"""Indexes repositories that are due, in every process that can reach the bare repositories."""

import logging
from collections.abc import Callable
from functools import partial

from agentjobs.inventory.indexing import (
    DueRepo,
    IndexFailure,
    claim_due,
    index_repository,
    make_outdated_due,
    store_failure,
)
from agentjobs.inventory.published_poms import PomFetcher
from agentjobs.local_git import repositories
from agentjobs.store.database import Database, StoreError, StoreUnavailable
from agentjobs_runtime.fair_slots import FairTurns
from agentjobs_runtime.free_space import explain_os_error
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.protocol.errors import ClaimLost
from agentjobs_runtime.settings.model import Settings

_log = logging.getLogger(__name__)
_POLL_SECONDS = 5.0


class IndexLoop:
    name = "index"

    def __init__(
        self,
        db: Database,
        settings: Settings,
        *,
        is_able: Callable[[], bool] = lambda: True,
        poms: PomFetcher | None = None,
        turns: FairTurns | None = None,
    ) -> None:
        """While `is_able` returns False, the repositories are left to other processes. Without
        `poms`, versions that published poms set stay unknown. `turns` are shared with loops that
        index beside this one."""
        self._is_able = is_able
        self._db = db
        self._settings = settings
        self._poms = poms
        self._turns = turns or FairTurns()

    async def run(self) -> None:
        with self._db.changes.listen("index") as signal:
            await make_outdated_due(self._db)
            while True:
                if not self._is_able() or not await self.index_one():
                    await signal.wait(_POLL_SECONDS)

    async def index_one(self) -> bool:
        """False if no repository was due."""
        async with self._turns.take(partial(claim_due, self._db)) as repo:
            if repo is not None:
                await self._index(repo)
        return repo is not None

    async def _index(self, repo: DueRepo) -> None:
        git_dir = repositories.path(self._settings.repositories_path, repo.id)
        try:
            result = await index_repository(self._db, repo, git_dir, self._settings, self._poms)
            _log.info(
                "repository indexed",
                extra={"fields": {"repo_id": repo.id, "files": result.file_count}},
            )
        except StoreUnavailable:
            raise
        except ClaimLost:
            fields = {"repo_id": repo.id}
            _log.warning("another process indexes the repository", extra={"fields": fields})
        except (GitError, IndexFailure, OSError, StoreError) as error:
            explanation = explain_os_error(error)
            _log.warning(
                "repository not indexed: %s",
                explanation or error,
                extra={"fields": {"repo_id": repo.id}},
            )
            # Where the service keeps its files is not shown to clients.
            await store_failure(
                self._db,
                repo,
                "the service cannot write to its disk" if explanation else str(error),
            )
