"""Turns a scanned tree into git objects, next to the mirror and not yet in it.

Never reads the tree's own `.git`: the git directory is the mirror, the index is private, and the
objects go to a directory that is deleted unless the change is accepted.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentjobs_runtime.files.removal import remove
from agentjobs_runtime.git.process import GitError, GitResult, GitTimeout, git
from agentjobs_runtime.mirrors.errors import RepoUnavailable, UnsafeChange
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.workspace.checkout import Checkout
from agentjobs_worker.workspace.template import STAT_CONFIGURATION

ADD_TIMEOUT_SECONDS = 300
ADD_CONFIGURATION = {
    **STAT_CONFIGURATION,
    "core.fileMode": "true",
    "core.ignoreCase": "false",
    "core.untrackedCache": "false",
    # Above this size, git streams a file instead of loading it.
    "core.bigFileThreshold": "16m",
}


@dataclass(frozen=True, slots=True)
class Stage:
    mirror: Path
    checkout: Checkout
    directory: Path

    @property
    def objects(self) -> Path:
        return self.directory / "objects"

    @property
    def index(self) -> Path:
        return self.directory / "index"

    @property
    def environment(self) -> dict[str, str]:
        return {"GIT_OBJECT_DIRECTORY": str(self.objects)}

    async def run(
        self,
        *arguments: str,
        input: bytes | None = None,
        index: Path | None = None,
        environment: dict[str, str] | None = None,
        allowed_exit_codes: tuple[int, ...] = (0,),
    ) -> GitResult:
        """Run a git command on the mirror, the tree and the private index."""
        return await git(
            *arguments,
            git_dir=self.mirror,
            work_tree=self.checkout.tree,
            index_file=index or self.index,
            cwd=self.checkout.tree,
            input=input,
            environment={**self.environment, **(environment or {})},
            configuration=ADD_CONFIGURATION,
            timeout_seconds=ADD_TIMEOUT_SECONDS,
            allowed_exit_codes=allowed_exit_codes,
        )

    async def add_all(self) -> str:
        """Stage the whole tree and return the id of the tree object."""
        try:
            await self.run("add", "--all")
        except GitTimeout:
            message = f"the change cannot be staged within {ADD_TIMEOUT_SECONDS} seconds"
            raise UnsafeChange("unsafe_change", message) from None
        except GitError as error:
            if error.is_lack_of_space:
                raise RepoUnavailable(f"the change cannot be stored: {error.reason}") from None
            message = f"the change cannot be committed: {error.reason}"
            raise UnsafeChange("unsafe_change", message) from None
        written = await self.run("write-tree")
        return written.stdout.decode("ascii").strip()

    def accept(self) -> None:
        """Blocking: move the objects into the mirror, packs before their index files."""
        for path in sorted(self.objects.rglob("*"), key=_index_files_last):
            relative = path.relative_to(self.objects)
            if path.is_file() and relative.parts[0] != "info":
                _move(path, self.mirror / "objects" / relative)
        # The cache measures the mirror again.
        os.utime(self.mirror / "objects")


def _move(path: Path, target: Path) -> None:
    for is_last in (False, False, True):
        try:
            target.parent.mkdir(exist_ok=True)
            path.rename(target)
        except (FileExistsError, FileNotFoundError):
            # A concurrent `git gc` may remove the directory while it is empty.
            if is_last:
                raise
        else:
            return


@asynccontextmanager
async def open_stage(mirror: Path, checkout: Checkout, directory: Path) -> AsyncIterator[Stage]:
    """`directory` is created, and removed at the end."""
    stage = Stage(mirror, checkout, directory)
    try:
        await run_in_thread(_prepare, stage)
        yield stage
    except OSError as error:
        reason = error.strerror or str(error)
        raise RepoUnavailable(f"the change cannot be stored: {reason}") from error
    finally:
        await run_in_thread(remove, stage.directory)


def _prepare(stage: Stage) -> None:
    stage.directory.mkdir(mode=0o700)
    (stage.objects / "info").mkdir(parents=True)
    # A relative path, because git may misread characters of the data directory's path.
    alternates = os.path.relpath(stage.mirror / "objects", stage.objects)
    (stage.objects / "info" / "alternates").write_text(f"{alternates}\n", encoding="ascii")
    shutil.copyfile(stage.checkout.index, stage.index)


def _index_files_last(path: Path) -> tuple[bool, str]:
    return path.suffix == ".idx", str(path)
