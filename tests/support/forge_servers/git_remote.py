"""The git half of a contract server: real smart HTTP by `git http-backend` on bare repositories."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

from aiohttp import web

from tests.support.forge_servers.state import RepositoryRow
from tests.support.git_commands import commit_files, git_output

_HOOK = """#!/bin/sh
if [ -s push-refusal ]; then
  cat push-refusal >&2
  exit 1
fi
while read old new ref; do
  branch="${ref#refs/heads/}"
  workflows=$(git log --format= --name-only "$new" --not --all -- .github/workflows)
  if [ -n "$WORKFLOW_REFUSAL" ] && [ -n "$workflows" ]; then
    echo "$WORKFLOW_REFUSAL" >&2
    exit 1
  fi
  if grep -qxF "$branch" protected; then
    echo "error: GH006: Protected branch update failed for $ref." >&2
    exit 1
  fi
done
"""


class GitRemote:
    """Repositories are stored under `root` by their IDs, so a rename moves nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "tree"

    def directory(self, repository: RepositoryRow) -> Path:
        return self.root / f"{repository.id}.git"

    def create(self, repository: RepositoryRow, files: dict[str, str | bytes]) -> str:
        """Create the repository with its first commit, unless it is to stay empty."""
        directory = self.directory(repository)
        directory.mkdir(parents=True)
        branch = f"--initial-branch={repository.default_branch}"
        git_output("init", "--quiet", "--bare", branch, cwd=directory)
        git_output("config", "http.receivepack", "true", cwd=directory)
        if repository.is_empty:
            return ""
        return self.commit(repository, repository.default_branch, files)

    def commit(self, repository: RepositoryRow, branch: str, files: dict[str, str | bytes]) -> str:
        """Commit on top of the branch, or of the default branch for a new branch."""
        directory = self.directory(repository)
        start = self.head(repository, branch) or self.head(repository, repository.default_branch)
        shutil.rmtree(self.tree, ignore_errors=True)
        self.tree.mkdir(parents=True)
        git_output("init", "--quiet", "--initial-branch=work", cwd=self.tree)
        if start:
            git_output("fetch", "--quiet", str(directory), start, cwd=self.tree)
            git_output("reset", "--quiet", "--hard", start, cwd=self.tree)
        commit = commit_files(self.tree, files, f"Change {branch}")
        target = f"HEAD:refs/heads/{branch}"
        git_output("push", "--quiet", "--force", str(directory), target, cwd=self.tree)
        repository.record_push()
        return commit

    def set_branch(self, repository: RepositoryRow, branch: str, commit: str) -> None:
        """Point a branch at an existing commit, without starting a process."""
        file = self.directory(repository) / "refs" / "heads" / branch
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{commit}\n")
        repository.record_push()

    def head(self, repository: RepositoryRow, branch: str) -> str | None:
        """The head of a branch, if it exists."""
        try:
            file = self.directory(repository) / "refs" / "heads" / branch
            return file.read_text().strip()
        except (OSError, ValueError):
            return None

    def merge(self, repository: RepositoryRow, base: str, head: str, method: str) -> bool:
        """Merge the branch `head`, which has one commit; False on conflicts."""
        directory = self.directory(repository)
        heads = [f"refs/heads/{name}" for name in (base, head)]
        merged = subprocess.run(
            ["git", "merge-tree", "--write-tree", "--no-messages", *heads],
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if merged.returncode:
            return False
        parents = heads if method == "merge" else heads[:1]
        arguments = [each for parent in parents for each in ("-p", parent)]
        tree = merged.stdout.split()[0]
        commit = git_output("commit-tree", tree, *arguments, "-m", method, cwd=directory)
        self.set_branch(repository, base, commit)
        return True

    def has_commit(self, repository: RepositoryRow, commit: str) -> bool:
        """Whether it is the head of a branch."""
        heads = (self.directory(repository) / "refs" / "heads").rglob("*")
        return any(file.is_file() and file.read_text().strip() == commit for file in heads)

    async def serve(
        self,
        request: web.Request,
        repository: RepositoryRow,
        path: str,
        *,
        workflow_refusal: str = "",
    ) -> web.StreamResponse:
        """`path` is what follows the repository, such as /info/refs."""
        self._protect(repository, has_refusal=bool(workflow_refusal))
        body = await request.read()
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "tester",
            "PATH_INFO": f"/{repository.id}.git{path}",
            "QUERY_STRING": request.rel_url.raw_query_string,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            # aiohttp has already decompressed the body.
            "CONTENT_LENGTH": str(len(body)),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "WORKFLOW_REFUSAL": workflow_refusal,
        }
        process = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate(body)
        if path == "/git-receive-pack":
            repository.record_push()
        head, _, content = output.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n"))
        status = int(headers.pop("Status", "200")[:3])
        return web.Response(status=status, headers=headers, body=content)

    def _protect(self, repository: RepositoryRow, *, has_refusal: bool) -> None:
        directory = self.directory(repository)
        hook = directory / "hooks" / "pre-receive"
        if repository.protected or repository.push_refusal or has_refusal:
            hook.parent.mkdir(exist_ok=True)
            (directory / "push-refusal").write_text(repository.push_refusal)
            (directory / "protected").write_text("\n".join(repository.protected) + "\n")
            hook.write_text(_HOOK)
            hook.chmod(0o755)
        else:
            hook.unlink(missing_ok=True)
