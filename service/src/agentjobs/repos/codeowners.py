"""Finds the code owners of a change in the repository's CODEOWNERS file, within CPU limits.

The last matching pattern wins, as on GitHub; on GitLab, the last one of each section. Gitea uses a
different pattern syntax and requests reviews from code owners itself.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from agentjobs.repos.service_file_reader import InvalidServiceFile, read_service_file
from agentjobs_runtime.git.trees import changes_between
from agentjobs_runtime.repo_files.patterns import Names, Pattern, fold_path
from agentjobs_runtime.repo_files.service_files import ServiceFile

MAX_BYTES = 256 * 1024
MAX_RULES = 2_000
MAX_PATHS = 1_000
MAX_OWNERS = 15
MAX_PATH_PARTS = 64
MAX_CPU_SECONDS = 2.0
_RULES_PER_CLOCK_READ = 16

_FILES = {
    "github": ServiceFile.GITHUB_CODE_OWNERS,
    "gitlab": ServiceFile.GITLAB_CODE_OWNERS,
}
_SECTION = re.compile(r"\^?\[([^\]]+)\](?:\[\d+\])?\s*(.*)")
_OWNER = re.compile(r"@[A-Za-z0-9_][\w.-]*(?:/[\w.-]+)*")


class CodeOwnersTimeout(Exception):
    """Matching the file's patterns took more CPU time than allowed."""


class _Rule(msgspec.Struct, frozen=True):
    """`depth` is the number of parts a matching path has; 0 means any number."""

    section: str
    pattern: Pattern
    owners: tuple[str, ...]
    depth: int

    def matches(self, names: Names) -> bool:
        return self.depth in (0, len(names)) and self.pattern.matches(names)


async def find_change_owners(
    git_dir: Path, base: str, commit: str, platform: str, warn: Callable[[str], None]
) -> tuple[str, ...]:
    """Owners according to the base commit, as `@name` or `@owner/team`, largest share first."""
    text = await _read(git_dir, base, platform)
    if not text:
        return ()
    changes = await changes_between(git_dir, base, commit)
    try:
        paths = [change.path for change in changes[:MAX_PATHS]]
        return await asyncio.to_thread(find_owners, text, paths)
    except CodeOwnersTimeout:
        warn("CODEOWNERS takes too long to evaluate; no reviews are requested from code owners")
        return ()


def find_owners(text: str, paths: Iterable[bytes]) -> tuple[str, ...]:
    # Thread CPU time: with a wall-clock limit, a busy server would drop owners of ordinary files.
    deadline = time.thread_time() + MAX_CPU_SECONDS
    rules = list(_rules(text))
    path_counts: dict[str, int] = {}
    for path in paths:
        names = fold_path(path)
        if len(names) > MAX_PATH_PARTS:
            continue
        section_owners: dict[str, tuple[str, ...]] = {}
        for number, rule in enumerate(rules):
            if rule.matches(names):
                section_owners[rule.section] = rule.owners
            if not number % _RULES_PER_CLOCK_READ and time.thread_time() > deadline:
                raise CodeOwnersTimeout
        for owner in {owner for owners in section_owners.values() for owner in owners}:
            path_counts[owner] = path_counts.get(owner, 0) + 1
    ordered = sorted(path_counts, key=lambda owner: (-path_counts[owner], owner))
    return tuple(ordered[:MAX_OWNERS])


async def _read(git_dir: Path, commit: str, platform: str) -> str:
    if platform not in _FILES:
        return ""
    try:
        content = await read_service_file(git_dir, commit, _FILES[platform], MAX_BYTES)
    except InvalidServiceFile:
        return ""
    return (content or b"").decode("utf-8", "replace")


def _rules(text: str) -> Iterator[_Rule]:
    section, default = "", _owners("")
    for line in text.splitlines()[:MAX_RULES]:
        rule_text = line.partition(" #")[0].strip()
        if not rule_text or rule_text.startswith("#"):
            continue
        if heading := _SECTION.fullmatch(rule_text):
            section, default = heading[1].casefold(), _owners(heading[2])
            continue
        # A space in a path is escaped with a backslash.
        pattern, *rest = re.split(r"(?<!\\)\s+", rule_text, maxsplit=1)
        owners = _owners(rest[0]) if rest else default
        # `docs/*` matches files directly in docs, not in its subdirectories.
        depth = pattern.strip("/").count("/") + 1 if pattern.endswith("/*") else 0
        # The platform reports invalid patterns.
        with contextlib.suppress(ValueError):
            yield _Rule(section, Pattern.parse(pattern.replace("\\ ", " ")), owners, depth)


def _owners(text: str) -> tuple[str, ...]:
    """Skips email addresses: platforms do not let every client look up people by email."""
    return tuple(word for word in text.split() if _OWNER.fullmatch(word))
