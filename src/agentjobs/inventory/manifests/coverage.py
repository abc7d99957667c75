"""Which lock file speaks for which manifests, and which projects make one workspace."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property

import msgspec

from agentjobs.inventory.manifests.kinds import kind_of
from agentjobs.inventory.model import IndexWarning, ParsedManifest

# Lock files, and the kinds of manifest each speaks for.
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
# More patterns than any workspace has; each is held against every project of the repository.
_MAX_PATTERNS = 200
_MAX_PATTERN = 500
# Of directories with parts of patterns, for all workspaces of a repository together: seconds. One
# of 5,000 projects takes a tenth of it.
_MAX_COMPARISONS = 3_000_000


class Covered(msgspec.Struct, frozen=True):
    """A lock file and the manifests it speaks for, by the directory of each."""

    lock: str
    manifests: dict[str, tuple[str, ...]]


class Layout:
    """Where the manifests of a commit lie."""

    def __init__(self, facts: Mapping[str, ParsedManifest]) -> None:
        self._facts = facts
        self._kinds = {path: kind_of(path) or "" for path in facts}
        self._comparisons = 0
        self._beside: dict[str, list[str]] = {}
        for path in sorted(facts):
            self._beside.setdefault(posixpath.dirname(path), []).append(path)

    def locks(self) -> Iterator[Covered]:
        """Every lock file that fixes anything; one that is empty or broken silences nobody."""
        for path in sorted(self._facts):
            facts = self._facts[path]
            kind = self._kinds[path]
            if kind in LOCKS and facts.packages:
                found = {at: self._of_kinds(at, LOCKS[kind]) for at in self._directories(path)}
                yield Covered(path, {at: paths for at, paths in found.items() if paths})

    def siblings(self) -> dict[str, set[str]]:
        """For each manifest of a workspace, the names of all its projects: not packages."""
        names: dict[str, set[str]] = {}
        for path, facts in self._facts.items():
            if not facts.members:
                continue
            directory = posixpath.dirname(path)
            family = [path, *self._members(directory, facts.members, {self._kinds[path]})]
            projects = {self._facts[each].project for each in family} - {""}
            for each in family:
                known = names.get(each)
                names[each] = projects if known is None else self._union(known, projects)
        return names

    @property
    def warnings(self) -> list[IndexWarning]:
        """What was too much to be looked at, once all the rest was asked for."""
        if self._comparisons <= _MAX_COMPARISONS:
            return []
        return [IndexWarning("", "workspaces of too many patterns: some members were not found")]

    def _union(self, some: set[str], more: set[str]) -> set[str]:
        """Who is in one workspace inside another belongs to both."""
        self._comparisons += (len(some) + len(more)) // 10
        return some | more if self._comparisons <= _MAX_COMPARISONS else some

    def _directories(self, lock: str) -> list[str]:
        here = posixpath.dirname(lock)
        facts, kinds = self._facts[lock], LOCKS[self._kinds[lock]]
        found = {here: None}
        for root in facts.roots:
            found[_joined(here, root.directory)] = None
        for path in self._of_kinds(here, kinds):
            for member in self._members(here, self._facts[path].members, kinds):
                found[posixpath.dirname(member)] = None
        if self._kinds[lock] == "Cargo.lock":
            found |= dict.fromkeys(self._below_cargo_lock.get(here, ()))
        return list(found)

    @cached_property
    def _below_cargo_lock(self) -> dict[str, list[str]]:
        """Directories without such a lock file of their own: Cargo looks for it further up."""
        own = {posixpath.dirname(at) for at, each in self._kinds.items() if each == "Cargo.lock"}
        below: dict[str, list[str]] = {}
        for directory in self._beside:
            nearest = directory
            while nearest and nearest not in own:
                nearest = posixpath.dirname(nearest)
            below.setdefault(nearest, []).append(directory)
        return below

    def _members(
        self, here: str, patterns: Sequence[str], kinds: frozenset[str] | set[str]
    ) -> Iterator[str]:
        known = dict.fromkeys(each for each in patterns if len(each) <= _MAX_PATTERN)
        split = [_parts(pattern) for pattern in list(known)[:_MAX_PATTERNS]]
        wanted = [parts for parts, is_negative in split if not is_negative]
        unwanted = [parts for parts, is_negative in split if is_negative]
        prefix = f"{here}/" if here else ""
        for directory in self._beside if wanted else ():
            if directory == here or not directory.startswith(prefix):
                continue
            parts = directory.removeprefix(prefix).split("/")
            self._comparisons += len(split) * len(parts)
            if self._comparisons > _MAX_COMPARISONS:
                return
            if any(_matches(each, parts) for each in wanted) and not any(
                _matches(each, parts) for each in unwanted
            ):
                yield from self._of_kinds(directory, kinds)

    def _of_kinds(self, directory: str, kinds: frozenset[str] | set[str]) -> tuple[str, ...]:
        return tuple(p for p in self._beside.get(directory, ()) if self._kinds[p] in kinds)


def _joined(here: str, directory: str) -> str:
    joined = posixpath.normpath(posixpath.join(here, directory))
    return "" if joined == "." else joined


def _parts(pattern: str) -> tuple[list[str], bool]:
    is_negative = pattern.startswith("!")
    path = pattern.removeprefix("!").removeprefix("./").rstrip("/")
    return [part for part in path.split("/") if part][:32], is_negative


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """`**` stands for any number of directories. Keeps the places in the pattern it may be at."""
    places = {0}
    for part in parts:
        after: set[int] = set()
        for at in _past_stars(pattern, places):
            if at == len(pattern):
                continue
            if pattern[at] == "**":
                after.add(at)
            elif fnmatchcase(part, pattern[at]):
                after.add(at + 1)
        places = after
    return len(pattern) in _past_stars(pattern, places)


def _past_stars(pattern: Sequence[str], places: set[int]) -> set[int]:
    found = set(places)
    for at in range(len(pattern)):
        if at in found and pattern[at] == "**":
            found.add(at + 1)
    return found
