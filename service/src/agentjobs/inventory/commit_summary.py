"""Summarizes a commit for a job: languages, guidance and lock files, test command, configuration.

Reads the mirror with three git processes. All of the content is untrusted.
"""

import asyncio
import re
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agentjobs.inventory.test_command import READ_FILES, RootFiles, guess_test_command
from agentjobs_dependencies.languages import detect_language
from agentjobs_runtime.environments.key import LOCK_FILES, MAX_FILES, CacheFile
from agentjobs_runtime.git.blobs import read_small_blobs
from agentjobs_runtime.git.trees import REGULAR, TreeEntry, list_tree
from agentjobs_runtime.mirrors.checkout_limits import (
    DEFAULT_LIMITS,
    CheckoutLimits,
    check_checkout_size,
)
from agentjobs_runtime.repo_configuration import (
    FILE_NAME,
    Configuration,
    ConfigurationError,
    parse_configuration,
)
from agentjobs_runtime.repo_files.service_files import ServiceFile
from agentjobs_runtime.weighted_cache import WeightedCache

MAX_FILE_BYTES = 256 * 1024
MAX_LANGUAGES = 10
MAX_GUIDANCE = 20
MAX_ROOT_NAMES = 2_000

# An agent reads these files itself; the prompt only names them.
_GUIDANCE = re.compile(
    rb"(?:.*/)?(?:AGENTS|CLAUDE|GEMINI)\.md|\.cursorrules|\.cursor/rules/[^/]+|\.windsurfrules"
    rb"|\.github/copilot-instructions\.md"
    rb"|(?i:(?:docs/|\.github/)?contributing(?:\.\w+)?|(?:development|hacking|readme)(?:\.\w+)?)"
)
# Paths go into the prompt, so only plain ones are used.
_PLAIN_PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)*")
_MAX_PATH_CHARACTERS = 200
_LOCK_NAMES = frozenset(name.encode() for name in LOCK_FILES)
_DEVCONTAINER_PATHS = frozenset(path.encode() for path in ServiceFile.DEVCONTAINER.value)


class CommitSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`languages` with their numbers of files, most first.

    `configuration` and `devcontainer` are the raw files.
    """

    languages: tuple[tuple[str, int], ...] = ()
    guidance: tuple[str, ...] = ()
    test_command: str | None = None
    configuration: bytes | None = None
    configuration_error: str | None = None
    lock_files: tuple[CacheFile, ...] = ()
    devcontainer: bytes | None = None

    def parse_configuration(self) -> Configuration:
        """The defaults if there is no file; raises ConfigurationError."""
        if self.configuration_error is not None:
            raise ConfigurationError(self.configuration_error)
        return parse_configuration(self.configuration or b"")


async def read_commit_summary(
    git_dir: Path, commit: str, limits: CheckoutLimits = DEFAULT_LIMITS
) -> CommitSummary:
    """Raises GitError if the commit cannot be read, RepoUnavailable if it is too large."""
    # First, because describing each entry takes longer than counting them.
    await check_checkout_size(git_dir, commit, limits)
    listing = _Listing()
    async with aclosing(list_tree(git_dir, commit)) as entries:
        async for entry in entries:
            listing.add(entry)
    contents = await read_small_blobs(git_dir, list(listing.to_read.values()))
    texts = dict(zip(listing.to_read, contents, strict=True))
    configuration = texts.pop(FILE_NAME, None)
    devcontainers = [texts.pop(name, None) for name in ServiceFile.DEVCONTAINER.value]
    return CommitSummary(
        languages=listing.languages_by_files(),
        guidance=listing.guidance_files(),
        test_command=guess_test_command(RootFiles(listing.root_names, texts)),
        configuration=configuration,
        configuration_error=listing.configuration_error,
        lock_files=tuple(listing.lock_files),
        devcontainer=next(
            (devcontainer for devcontainer in devcontainers if devcontainer is not None), None
        ),
    )


class CommitSummaryCache:
    """Caches summaries of recent commits; concurrent callers share one read."""

    def __init__(self, limits: CheckoutLimits = DEFAULT_LIMITS, size: int = 256) -> None:
        self._limits = limits
        self._summaries: WeightedCache[tuple[str, str], CommitSummary] = WeightedCache(size)
        self._reading: dict[tuple[str, str], asyncio.Task[CommitSummary]] = {}

    async def load(self, git_dir: Path, repo_id: str, commit: str) -> CommitSummary:
        key = (repo_id, commit)
        summary = self._summaries.get(key)
        if summary is not None:
            return summary
        if key not in self._reading:
            reading = asyncio.create_task(self._read(key, git_dir))
            # Retrieve the exception, because every waiter may have been cancelled.
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._reading[key] = reading
        # Cancelling one waiter must not cancel the read for the others.
        return await asyncio.shield(self._reading[key])

    async def _read(self, key: tuple[str, str], git_dir: Path) -> CommitSummary:
        try:
            summary = await read_commit_summary(git_dir, key[1], self._limits)
        finally:
            del self._reading[key]
        self._summaries.put(key, summary)
        return summary


@dataclass(slots=True)
class _Listing:
    """What the paths of the tree determine."""

    languages: Counter[str] = field(default_factory=Counter)
    root_names: set[str] = field(default_factory=set)
    to_read: dict[str, str] = field(default_factory=dict)
    configuration_error: str | None = None
    lock_files: list[CacheFile] = field(default_factory=list)
    _guidance: list[str] = field(default_factory=list)

    def add(self, entry: TreeEntry) -> None:
        root, _, rest = entry.path.partition(b"/")
        if len(self.root_names) < MAX_ROOT_NAMES:
            self.root_names.add(root.decode("utf-8", "replace"))
        if entry.mode in REGULAR:
            if language := detect_language(entry.path):
                self.languages[language] += 1
            if not rest:
                self._add_root_file(entry)
            self._add_environment_file(entry)
            if _GUIDANCE.fullmatch(entry.path):
                self._add_guidance(entry.path)
        elif entry.path == FILE_NAME.encode():
            self.configuration_error = "must be a regular file, not a symlink or submodule"

    def languages_by_files(self) -> tuple[tuple[str, int], ...]:
        ranked = sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))
        return tuple(ranked[:MAX_LANGUAGES])

    def guidance_files(self) -> tuple[str, ...]:
        """Files nearest to the root first."""
        ranked = sorted(self._guidance, key=lambda path: (path.count("/"), path))
        return tuple(ranked[:MAX_GUIDANCE])

    def _add_root_file(self, entry: TreeEntry) -> None:
        name = entry.path.decode("utf-8", "replace")
        if name == FILE_NAME or name in READ_FILES:
            self._add_to_read(name, entry)

    def _add_environment_file(self, entry: TreeEntry) -> None:
        name = entry.path.rsplit(b"/", 1)[-1]
        if name in _LOCK_NAMES and len(self.lock_files) < MAX_FILES:
            path = entry.path.decode("utf-8", "replace")
            self.lock_files.append(CacheFile(path, entry.object_id))
        if entry.path in _DEVCONTAINER_PATHS:
            self._add_to_read(entry.path.decode("ascii"), entry)

    def _add_to_read(self, name: str, entry: TreeEntry) -> None:
        if entry.size <= MAX_FILE_BYTES:
            self.to_read[name] = entry.object_id
        elif name == FILE_NAME:
            self.configuration_error = f"is larger than {MAX_FILE_BYTES // 1024} KiB"

    def _add_guidance(self, path: bytes) -> None:
        text = path.decode("utf-8", "replace")
        if len(text) <= _MAX_PATH_CHARACTERS and _PLAIN_PATH.fullmatch(text):
            self._guidance.append(text)
