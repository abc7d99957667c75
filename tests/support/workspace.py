"""A harness for workspace tests: a repository on a git server, mirrors and workspaces."""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentjobs_runtime.git.identity import Identity
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.mirrors.mirror import Mirrors
from agentjobs_worker.workspace.checkout import Checkout, Workspaces
from agentjobs_worker.workspace.commit import commit_changes
from tests.support.workspace_git_server import OriginServer, origin_server

AUTHOR = Identity("agentjobs", "agentjobs@localhost")
REPO = "repo_one"
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "LC_ALL": "C.UTF-8",
}
FILES = {
    "README.md": b"# Sample\n",
    "src/app.py": b"print('hello')\n",
    "src/run.sh": b"#!/bin/sh\nexit 0\n",
    ".gitignore": b"build/\n*.log\n",
}


def run_git(directory: Path, *arguments: str, check: bool = True) -> str:
    """Run plain git, as a user would."""
    result = subprocess.run(
        ["git", "-c", "safe.directory=*", *arguments],
        cwd=directory,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert not check or result.returncode == 0, result.stderr.decode("utf-8", "replace")
    return result.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


@dataclass(frozen=True)
class Origin:
    """A bare repository that the server offers, and a clone to push from."""

    bare: Path
    clone: Path

    def commit(self, files: Mapping[str, bytes | None], *, branch: str = "main") -> str:
        """Write (None: delete) files on the branch, commit and push."""
        for name, content in files.items():
            path = self.clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)
        return self.commit_as_is(branch=branch)

    def commit_as_is(self, *, branch: str = "main") -> str:
        run_git(self.clone, "add", "-A")
        run_git(self.clone, "commit", "-q", "--allow-empty", "-m", "change")
        run_git(self.clone, "push", "-q", "--force", "origin", f"HEAD:refs/heads/{branch}")
        return run_git(self.clone, "rev-parse", "HEAD")

    def head(self, branch: str) -> str | None:
        return run_git(self.bare, "rev-parse", "-q", "--verify", branch, check=False) or None


@dataclass(frozen=True)
class WorkspaceHarness:
    root: Path
    origin: Origin
    server: OriginServer
    mirrors: Mirrors
    workspaces: Workspaces

    @property
    def remote(self) -> Remote:
        return Remote(self.server.url("origin.git"), None)

    @property
    def mirror(self) -> Path:
        return self.mirrors.path(REPO)

    async def head(self, branch: str = "main") -> str:
        return await self.mirrors.fetch_commit(REPO, self.remote, branch=branch, known_head=None)

    @asynccontextmanager
    async def checkout(self, owner_uid: int | None = None) -> AsyncIterator[Checkout]:
        head = await self.head()
        async with self.workspaces.checkout(REPO, head, owner_uid=owner_uid) as checkout:
            yield checkout

    async def commit(
        self,
        checkout: Checkout,
        message: str = "Improve it",
        *,
        protected: Sequence[str] = (),
        lifted: Sequence[str] = (),
    ) -> str | None:
        return await commit_changes(
            self.mirror, checkout, message, AUTHOR, protected=protected, lifted=lifted
        )

    def changed(self, commit: str) -> list[str]:
        """The changes of a commit, as 'A 100644 path'."""
        raw = run_git(self.mirror, "diff-tree", "-r", "--no-renames", "-z", f"{commit}^", commit)
        fields = iter(raw.split("\0"))
        changes = []
        for description in fields:
            if description:
                columns = description.split(" ")
                changes.append(f"{columns[4]} {columns[1]} {next(fields)}")
        return sorted(changes)


@contextmanager
def workspace_harness(root: Path) -> Iterator[WorkspaceHarness]:
    shutil.copytree(_create_repository(), root, dirs_exist_ok=True, symlinks=True)
    origin = Origin(root / "served" / "origin.git", root / "clone")
    mirrors = Mirrors(root / "data" / "mirrors")
    workspaces = Workspaces(root / "data" / "workspaces", mirrors)
    with origin_server(root / "served") as server:
        yield WorkspaceHarness(root, origin, server, mirrors, workspaces)


@functools.cache
def _create_repository() -> Path:
    """A repository with one commit, created once and copied for each test."""
    root = Path(tempfile.mkdtemp(prefix="agentjobs-tests-"))
    atexit.register(shutil.rmtree, root)
    bare, clone = root / "served" / "origin.git", root / "clone"
    bare.mkdir(parents=True)
    run_git(bare, "init", "-q", "--bare", "--template=", "-b", "main")
    run_git(bare, "config", "http.receivepack", "true")
    (clone / "src").mkdir(parents=True)
    (clone / "src" / "run.sh").touch(mode=0o755)
    run_git(clone, "init", "-q", "--template=", "-b", "unused")
    run_git(clone, "remote", "add", "origin", "../served/origin.git")
    Origin(bare, clone).commit(FILES)
    return root
