"""The directory of the bare repositories, which all processes with an API share.

A marker file in it names the deployment, so that a process on a machine without the directory, or
with another one in its place, does not take it for an empty one. Knows no git.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from pathlib import Path

from agentjobs.organizations.effective_settings import load_or_store_setting, load_setting
from agentjobs.store.database import Database
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import Settings

MARKER = ".agentjobs-deployment"
SETTING = "AGENTJOBS_REPOSITORIES_DIR"

_DEPLOYMENT = "deployment_id"
_MAX_MARKER_BYTES = 100
_RETRY_SECONDS = 30
_log = logging.getLogger(__name__)


class RepositoriesDirectory:
    """`problem` says why this process cannot use the directory; None if it can."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self.path = settings.repositories_path
        self.problem: str | None = None
        self._db = db
        self._is_default = not settings.repositories_dir

    @property
    def is_usable(self) -> bool:
        return self.problem is None

    def require(self) -> None:
        """Raises `unavailable` for tenants, who see no paths."""
        if self.problem is not None:
            raise Problem(
                "unavailable",
                "This process of the service cannot reach the repositories. Try again later, or"
                " contact the operator.",
                retry_after_seconds=_RETRY_SECONDS,
            )

    async def check(self) -> None:
        """Look for the marker, and create it in the first process of a deployment."""
        problem = await self._find_problem()
        if problem and problem != self.problem:
            _log.error("this process serves and indexes no repositories: %s", problem)
        elif self.problem and not problem:
            _log.info("the repositories can be reached again")
        self.problem = problem

    async def check_for_operator(self) -> None:
        """Raises `unavailable` with the reason."""
        if (problem := await self._find_problem()) is not None:
            raise Problem("unavailable", problem)

    async def _find_problem(self) -> str | None:
        known = await load_setting(self._db, _DEPLOYMENT, str)
        try:
            marker = await asyncio.to_thread(_read_marker, self.path)
            is_new = marker is None and await self._may_create(known)
            if is_new:
                name = known or secrets.token_hex(16)
                marker = await asyncio.to_thread(
                    _create_marker, self.path, name, with_parents=self._is_default
                )
        except OSError as error:
            return f"{self.path} cannot be read ({error.strerror}). {self._remedy}"
        if marker is None:
            return (
                f"{self.path} is not the directory of this deployment's repositories: it has no"
                f" file {MARKER} with the content {known}. {self._remedy}"
            )
        if marker == await load_or_store_setting(self._db, _DEPLOYMENT, marker):
            return None
        if is_new:
            await asyncio.to_thread((self.path / MARKER).unlink, missing_ok=True)
        return f"{self.path} belongs to another deployment ({marker}). {self._remedy}"

    async def _may_create(self, known: str | None) -> bool:
        """Allowed in a new deployment, and in a directory that has files of this deployment."""
        if not self._is_default and not await asyncio.to_thread(self.path.is_dir):
            return False
        rows = await self._db.fetch_all(
            "SELECT id FROM repos WHERE disconnected_at IS NULL ORDER BY id LIMIT 100"
        )
        if not rows:
            return known is None
        heads = [self.path / f"{row['id']}.git" / "HEAD" for row in rows]
        return await asyncio.to_thread(lambda: any(head.is_file() for head in heads))

    @property
    def _remedy(self) -> str:
        return (
            f"Set {SETTING} to the directory that all `agentjobs serve` share, and check that its"
            " volume is mounted."
        )


def _read_marker(root: Path) -> str | None:
    try:
        with (root / MARKER).open("rb") as file:
            # Empty while another process writes it.
            return file.read(_MAX_MARKER_BYTES).decode("utf-8", "replace").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def _create_marker(root: Path, name: str, *, with_parents: bool) -> str | None:
    """The name that the marker has afterwards: another process may create it too."""
    if with_parents:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError), (root / MARKER).open("x") as file:
        file.write(f"{name}\n")
        file.flush()
        os.fsync(file.fileno())
    return _read_marker(root)
