"""Searches what setup left for the secrets that it was given. Does not open archives."""

import asyncio
import os
import subprocess
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from agentjobs_runtime.redaction.secret_forms import FRAGMENT_LENGTH, encode_forms, list_fragments
from agentjobs_runtime.sandboxes.slots import MAX_BUILDS
from agentjobs_worker.environments.setup_files import make_readable, walk

SEARCH_SECONDS = 600
# grep reads a line as a whole, and a sparse file of gigabytes may have only one.
MAX_MEMORY_KIB = 1024 * 1024
_MAX_SHOWN_BYTES = 4_096


class SearchFailed(Exception):
    """Nothing is known about the files; the message says why."""


async def find_secret(directories: Sequence[Path], secrets: Iterable[str]) -> str | None:
    """The path of a file with a secret, or a part of one, in it or in its name.

    Raises SearchFailed.
    """
    secrets = tuple(secrets)
    # grep reads one pattern per line; the lines of a longer secret are forms of their own.
    patterns = {form for form in encode_forms(secrets) if b"\n" not in form}
    patterns |= {part[at : at + FRAGMENT_LENGTH] for part, at in list_fragments(secrets)}
    if not patterns:
        return None
    for directory in directories:
        path = await asyncio.get_running_loop().run_in_executor(
            _threads(), _search, directory, patterns
        )
        if path is not None:
            return path
    return None


@cache
def _threads() -> ThreadPoolExecutor:
    """Threads for searches only: one may take minutes, and shared threads are few."""
    return ThreadPoolExecutor(MAX_BUILDS, thread_name_prefix="secret-search")


def _search(directory: Path, patterns: Collection[bytes]) -> str | None:
    try:
        make_readable(os.fsencode(directory))
        path = _search_names(directory, patterns)
    except OSError as error:
        raise SearchFailed(
            f"its files could not be searched for secrets: {error.strerror}"
        ) from error
    return path or _search_contents(directory, patterns)


def _search_names(directory: Path, patterns: Collection[bytes]) -> str | None:
    root = os.fsencode(directory)
    for entries in walk(root):
        names = [_name_and_target(entry) for entry in entries]
        # Together, because there may be thousands of patterns.
        joined = b"\n".join(names)
        if pattern := next((pattern for pattern in patterns if pattern in joined), None):
            index = next(index for index, name in enumerate(names) if pattern in name)
            return _shown(os.path.relpath(entries[index].path, root))
    return None


def _name_and_target(entry: os.DirEntry[bytes]) -> bytes:
    target = os.readlink(entry.path) if entry.is_symlink() else b""  # noqa: PTH115 - bytes
    return entry.name + b"\n" + target


def _search_contents(directory: Path, patterns: Collection[bytes]) -> str | None:
    # Millions of files may match, and grep outlives a shell that is killed.
    search = f'nice -n 10 timeout {SEARCH_SECONDS + 10} "$@" || [ $? = 1 ] || echo failed >&2'
    bounded = f"ulimit -v {MAX_MEMORY_KIB}; {{ {search}; }} | head --bytes={_MAX_SHOWN_BYTES}"
    limited = ["sh", "-c", bounded, "sh"]
    command = ["grep", "--recursive", "--files-with-matches", "--text", "--fixed-strings"]
    options = ["--max-count=1", "--devices=skip", "--null", "--file=-", "--", "."]
    try:
        result = subprocess.run(
            [*limited, *command, *options],
            input=b"\n".join(patterns) + b"\n",
            capture_output=True,
            cwd=directory,
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
            timeout=SEARCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SearchFailed(
            f"its files could not be searched for secrets within {SEARCH_SECONDS} seconds"
        ) from None
    if result.stdout:
        return _shown(os.path.normpath(result.stdout.split(b"\0", 1)[0]))
    if b"memory exhausted" in result.stderr:
        raise SearchFailed(
            "a file, perhaps a sparse one, has a line that is too long to search for secrets; "
            "delete such files at the end of setup"
        )
    if result.stderr:
        reason = result.stderr[-_MAX_SHOWN_BYTES:].decode("utf-8", "replace").strip()
        raise SearchFailed(f"its files could not be searched for secrets: {reason}")
    return None


def _shown(path: bytes) -> str:
    return path[:_MAX_SHOWN_BYTES].decode("utf-8", "replace")
