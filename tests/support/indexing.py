"""A git repository that tests index."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentjobs.inventory.index import child
from agentjobs.inventory.index.process import run_child
from agentjobs.inventory.index.wire import Request, Result
from tests.support.workspace import ENVIRONMENT, run_git

MEMORY_MIB = 1_024
TIMEOUT_SECONDS = 60


@dataclass
class IndexSetup:
    """`progress` has the progress messages of the last index."""

    repository: Path
    poms_path: Path
    progress: list[tuple[int, int]] = field(default_factory=list)

    @property
    def git_dir(self) -> Path:
        return self.repository / ".git"

    def write(self, files: Mapping[str | bytes, bytes]) -> None:
        for name, content in files.items():
            path = Path(os.fsdecode(os.fsencode(self.repository) + b"/" + os.fsencode(name)))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def commit(self, files: Mapping[str | bytes, bytes] | None = None) -> str:
        self.write(files or {})
        run_git(self.repository, "add", "-A")
        run_git(self.repository, "commit", "-q", "-m", "x", "--allow-empty")
        return run_git(self.repository, "rev-parse", "HEAD")

    def commit_many(self, count: int) -> str:
        """Files that import each other, written without touching the working directory."""
        parts = [b"commit refs/heads/main\ncommitter A <a@b.c> 1700000000 +0000\ndata 1\nx\n"]
        for at in range(count):
            text = b"from pkg import m%d\n\n\nVALUE = %d\n" % (at + 1, at)
            parts.append(b"M 100644 inline pkg/m%d.py\ndata %d\n%s\n" % (at, len(text), text))
        subprocess.run(
            ["git", "fast-import", "--quiet", "--force"],
            cwd=self.repository,
            env=ENVIRONMENT,
            input=b"".join(parts),
            check=True,
        )
        return run_git(self.repository, "rev-parse", "main")

    def remove_object(self, revision: str) -> Path:
        name = run_git(self.repository, "rev-parse", revision)
        path = self.git_dir / "objects" / name[:2] / name[2:]
        path.chmod(0o600)
        path.unlink()
        return path

    async def index(
        self,
        commit: str,
        *,
        stored_digest: str = "",
        memory_mib: int = MEMORY_MIB,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Result:
        """Index in a new process; `stored_digest` is that of the stored dependencies."""
        self.progress.clear()
        request = self._request(commit, stored_digest, memory_mib)
        return await run_child(request, timeout_seconds, lambda *at: self.progress.append(at))

    def index_in_process(self, commit: str, *, stored_digest: str = "") -> Result:
        """The same index without a new process, whose start takes most of the time."""
        response = child.respond(self._request(commit, stored_digest, MEMORY_MIB))
        assert isinstance(response, Result)
        return response

    def _request(self, commit: str, stored_digest: str, memory_mib: int) -> Request:
        return Request(
            "index",
            str(self.git_dir),
            commit,
            str(self.poms_path),
            memory_mib,
            stored_digest=stored_digest,
        )


def index_setup(directory: Path) -> IndexSetup:
    repository = directory / "repository"
    repository.mkdir()
    run_git(repository, "init", "-q", "-b", "main")
    return IndexSetup(repository, directory / "index" / "poms.db")
