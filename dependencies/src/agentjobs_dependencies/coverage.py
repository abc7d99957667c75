"""Determines which manifests a lock file covers, and which projects form a workspace."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

from agentjobs_dependencies.formats.kinds import detect_kind
from agentjobs_dependencies.model import IndexWarning, ParsedManifest

# Lock files, and the kinds of manifest that each covers.
LOCKS: Mapping[str, frozenset[str]] = {
    "uv.lock": frozenset({"pyproject.toml", "setup.cfg"}),
    "poetry.lock": frozenset({"pyproject.toml"}),
    "Pipfile.lock": frozenset({"Pipfile"}),
    "package-lock.json": frozenset({"package.json"}),
    "npm-shrinkwrap.json": frozenset({"package.json"}),
    "pnpm-lock.yaml": frozenset({"package.json"}),
    "yarn.lock": frozenset({"package.json"}),
    "Cargo.lock": frozenset({"Cargo.toml"}),
    "Gemfile.lock": frozenset(),
    "composer.lock": frozenset({"composer.json"}),
}
# More patterns than any workspace has; each is compared with every project of the repository.
_MAX_PATTERNS = 200
_MAX_PATTERN = 500
# Comparisons of directories with parts of patterns, for all workspaces of a repository; takes
# seconds. A workspace of 5,000 projects needs a tenth of them.
_MAX_COMPARISONS = 3_000_000


class LockCoverage(NamedTuple):
    """A lock file and the manifests that it covers, by directory."""

    lock: str
    manifests: dict[str, tuple[str, ...]]


class Layout:
    """The directories of a commit's manifests."""

    def __init__(self, manifests: Mapping[str, ParsedManifest]) -> None:
        self._manifests = manifests
        self._kinds = {path: detect_kind(path) or "" for path in manifests}
        self._comparisons = 0
        self._by_directory: dict[str, list[str]] = {}
        for path in sorted(manifests):
            self._by_directory.setdefault(posixpath.dirname(path), []).append(path)

    def locks(self) -> Iterator[LockCoverage]:
        """Every lock file that has packages; an empty or broken one covers nothing."""
        for path in sorted(self._manifests):
            manifest = self._manifests[path]
            kind = self._kinds[path]
            if kind in LOCKS and manifest.packages:
                covered = {at: self._of_kinds(at, LOCKS[kind]) for at in self._directories(path)}
                yield LockCoverage(path, {at: paths for at, paths in covered.items() if paths})

    def siblings(self) -> dict[str, set[str]]:
        """Returns the names of the workspace's projects for each of its manifests."""
        names: dict[str, set[str]] = {}
        for workspace in self.workspaces():
            projects = {self._manifests[member].project for member in workspace} - {""}
            for member in workspace:
                known = names.get(member)
                names[member] = projects if known is None else self._union(known, projects)
        return names

    def workspaces(self) -> Iterator[list[str]]:
        """The manifest of each workspace, followed by those of its members."""
        for path, manifest in self._manifests.items():
            if manifest.members:
                directory = posixpath.dirname(path)
                kinds = {self._kinds[path]}
                yield [path, *self._members(directory, manifest.members, kinds)]

    @property
    def warnings(self) -> list[IndexWarning]:
        """Complete once `locks` and `siblings` have been called."""
        if self._comparisons <= _MAX_COMPARISONS:
            return []
        return [IndexWarning("", "workspaces with too many patterns: some members are missing")]

    def _union(self, names: set[str], others: set[str]) -> set[str]:
        """A project of a nested workspace belongs to both."""
        self._comparisons += (len(names) + len(others)) // 10
        return names | others if self._comparisons <= _MAX_COMPARISONS else names

    def _directories(self, lock: str) -> list[str]:
        here = posixpath.dirname(lock)
        manifest, kinds = self._manifests[lock], LOCKS[self._kinds[lock]]
        directories = {here: None}
        for root in manifest.roots:
            directories[_join(here, root.directory)] = None
        for path in self._of_kinds(here, kinds):
            for member in self._members(here, self._manifests[path].members, kinds):
                directories[posixpath.dirname(member)] = None
        if self._kinds[lock] == "Cargo.lock":
            directories |= dict.fromkeys(self._below_cargo_lock.get(here, ()))
        return list(directories)

    @cached_property
    def _below_cargo_lock(self) -> dict[str, list[str]]:
        """Directories by the nearest Cargo.lock, which Cargo looks for in parent directories."""
        own = {
            posixpath.dirname(path) for path, kind in self._kinds.items() if kind == "Cargo.lock"
        }
        below: dict[str, list[str]] = {}
        for directory in self._by_directory:
            nearest = directory
            while nearest and nearest not in own:
                nearest = posixpath.dirname(nearest)
            below.setdefault(nearest, []).append(directory)
        return below

    def _members(
        self, here: str, patterns: Sequence[str], kinds: frozenset[str] | set[str]
    ) -> Iterator[str]:
        members = MemberPatterns(patterns)
        prefix = f"{here}/" if here else ""
        for directory in self._by_directory if members.included else ():
            if directory == here or not directory.startswith(prefix):
                continue
            parts = directory.removeprefix(prefix).split("/")
            self._comparisons += len(members) * len(parts)
            if self._comparisons > _MAX_COMPARISONS:
                return
            if members.match(parts):
                yield from self._of_kinds(directory, kinds)

    def _of_kinds(self, directory: str, kinds: frozenset[str] | set[str]) -> tuple[str, ...]:
        return tuple(p for p in self._by_directory.get(directory, ()) if self._kinds[p] in kinds)


class MemberPatterns:
    """The patterns of a workspace for directories below it; those with `!` exclude directories."""

    def __init__(self, patterns: Iterable[str]) -> None:
        distinct = dict.fromkeys(text for text in patterns if len(text) <= _MAX_PATTERN)
        split = [_parts(pattern) for pattern in list(distinct)[:_MAX_PATTERNS]]
        self.included = [parts for parts, is_negative in split if not is_negative]
        self._excluded = [parts for parts, is_negative in split if is_negative]

    def __len__(self) -> int:
        return len(self.included) + len(self._excluded)

    def match(self, parts: Sequence[str]) -> bool:
        is_included = any(_matches(pattern, parts) for pattern in self.included)
        return is_included and not any(_matches(pattern, parts) for pattern in self._excluded)


def _join(here: str, directory: str) -> str:
    joined = posixpath.normpath(posixpath.join(here, directory))
    return "" if joined == "." else joined


def _parts(pattern: str) -> tuple[list[str], bool]:
    is_negative = pattern.startswith("!")
    path = pattern.removeprefix("!").removeprefix("./").rstrip("/")
    return [part for part in path.split("/") if part][:32], is_negative


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """`**` matches any number of directories. Tracks all possible positions in the pattern."""
    positions = {0}
    for part in parts:
        after: set[int] = set()
        for at in _past_stars(pattern, positions):
            if at == len(pattern):
                continue
            if pattern[at] == "**":
                after.add(at)
            elif fnmatchcase(part, pattern[at]):
                after.add(at + 1)
        positions = after
    return len(pattern) in _past_stars(pattern, positions)


def _past_stars(pattern: Sequence[str], positions: set[int]) -> set[int]:
    passed = set(positions)
    for at in range(len(pattern)):
        if at in passed and pattern[at] == "**":
            passed.add(at + 1)
    return passed
