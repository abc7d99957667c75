"""Indexes repositories that are due; runs on the one host where the local repositories live."""

import logging
from pathlib import Path

from agentjobs.forges import local_repositories
from agentjobs.git.process import GitError
from agentjobs.repos.indexing import IndexFailure, claim_due, index_repository, store_failure
from agentjobs.store.database import Database

_log = logging.getLogger(__name__)
_POLL_SECONDS = 5.0


class IndexLoop:
    name = "index"

    def __init__(self, db: Database, data_path: Path) -> None:
        self._db = db
        self._data_path = data_path

    async def run(self) -> None:
        with self._db.changes.listen("index") as signal:
            while True:
                if not await self.index_one():
                    await signal.wait(_POLL_SECONDS)

    async def index_one(self) -> bool:
        """False when nothing was due."""
        repo = await claim_due(self._db)
        if repo is None:
            return False
        git_dir = local_repositories.path(self._data_path, repo.id)
        try:
            result = await index_repository(self._db, repo, git_dir)
            _log.info(
                "repository indexed",
                extra={"fields": {"repo_id": repo.id, "files": result.file_count}},
            )
        except (GitError, IndexFailure, OSError) as error:
            _log.warning(
                "repository not indexed: %s", error, extra={"fields": {"repo_id": repo.id}}
            )
            await store_failure(self._db, repo, str(error))
        return True
