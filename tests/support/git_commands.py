"""Runs git as a developer does, and makes small repositories."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILES = {"README.md": "# shop\n", "src/shop.py": "PRICE = 1\n\nTAX = 2\n"}

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}


def git_output(*arguments: str, cwd: Path) -> str:
    """Run git as a developer and return its output."""
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, env=_ENVIRONMENT, capture_output=True, check=True
    )
    return done.stdout.decode(errors="replace").strip()


@dataclass(frozen=True)
class GitResult:
    exit_code: int
    output: str


async def run_git_command(
    *arguments: str,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> GitResult:
    """Run git without blocking the event loop, which may serve its requests."""
    process = await asyncio.create_subprocess_exec(
        "git",
        *arguments,
        cwd=cwd,
        env={**_ENVIRONMENT, **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(stdin)
    return GitResult(process.returncode or 0, output.decode(errors="replace"))


def make_repository(directory: Path, files: Mapping[str, str] = FILES) -> Path:
    directory.mkdir(parents=True)
    git_output("init", "--quiet", "--initial-branch=main", cwd=directory)
    commit_files(directory, files, "first")
    return directory


def commit_files(tree: Path, files: Mapping[str, str | bytes], message: str) -> str:
    for name, content in files.items():
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    git_output("add", "-A", cwd=tree)
    git_output("commit", "--quiet", "-m", message, cwd=tree)
    return git_output("rev-parse", "HEAD", cwd=tree)
