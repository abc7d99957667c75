"""Finds fixes that the open pull requests of a repository already have, whoever opened them.

Reads the manifests at their heads; titles and branch names prove nothing.
"""

import errno
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from agentjobs.connections.adapters import Platforms
from agentjobs.inventory.indexing import read_dependencies
from agentjobs.jobs.operations.auto_trigger_rows import FixKey
from agentjobs.jobs.operations.proposed_fixes import ProposingPull
from agentjobs.local_git import repositories
from agentjobs.local_git.pull_heads import fetch_heads
from agentjobs.platforms.http.client import RetryBudget
from agentjobs.platforms.protocol import RepoAddress
from agentjobs.pulls.pulls import pull_path
from agentjobs.store.database import Database
from agentjobs_dependencies.versions.order import version_key
from agentjobs_runtime.git.refs import has_whole_tree
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.weighted_cache import WeightedCache

MAX_PULLS = 20
# Limit for one reading of all open pull requests.
PROPOSED_SECONDS = 600
_RETRY_SECONDS = 5.0
_CACHED_VERSIONS = 50_000
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

# A manifest, an ecosystem, a package.
Location = tuple[str, str, str]
Versions = Mapping[Location, frozenset[str]]
# Opens a repository that has these commits, as far as they exist.
CommitsOpener = Callable[[Collection[str]], AbstractAsyncContextManager[Path]]


class ScannedRepo(msgspec.Struct, frozen=True):
    id: str
    organization: str
    full_name: str
    default_branch: str
    head_commit: str
    # Both are empty for a repository of the platform `local`.
    connection_id: str
    external_id: str

    @property
    def address(self) -> RepoAddress:
        return RepoAddress(self.organization, self.full_name, self.id, self.external_id)


class WantedFix(msgspec.Struct, frozen=True):
    """`versions` are the vulnerable ones that the fix replaces."""

    key: FixKey
    versions: frozenset[str]

    @property
    def location(self) -> Location:
        return self.key[:3]

    def is_in(self, versions: Versions) -> bool:
        """Whether the vulnerable versions are gone and one is at least the fixed version."""
        present = versions.get(self.location, frozenset())
        _, ecosystem, _, fix_version = self.key
        fixed = version_key(ecosystem, fix_version)
        keys = [version_key(ecosystem, version) for version in present - self.versions]
        is_upgraded = fixed is not None and any(key is not None and key >= fixed for key in keys)
        return is_upgraded and present.isdisjoint(self.versions)


class Proposals(msgspec.Struct, frozen=True):
    """`unread` are pull requests whose commits could not be read: what they propose is unknown."""

    by_fix: dict[FixKey, ProposingPull] = {}
    unread: frozenset[int] = frozenset()


class _OpenPull(msgspec.Struct, frozen=True):
    number: int
    url: str
    title: str
    head_commit: str


class OpenPullReader:
    """One per process. Without `platforms`, only repositories of `local` are read."""

    def __init__(self, db: Database, settings: Settings, platforms: Platforms | None) -> None:
        self._db = db
        self._settings = settings
        self._platforms = platforms
        self._known: WeightedCache[tuple[str, str, frozenset[Location]], Versions] = WeightedCache(
            _CACHED_VERSIONS
        )

    async def find_proposed(
        self,
        repo: ScannedRepo,
        fixes: Sequence[WantedFix],
        known: Collection[int] = (),
        open_commits: CommitsOpener | None = None,
    ) -> Proposals:
        """`known` are the pull requests that proposed a fix the last time. `open_commits` is needed
        where the service's own repositories cannot be reached. Raises PlatformError, GitError,
        IndexFailure or OSError."""
        if not fixes:
            return Proposals()
        names = {fix.key[2] for fix in fixes}
        pulls = _most_likely(await self._open_pulls(repo), names, known)
        versions = await self._read_versions(
            repo, pulls, frozenset(fix.location for fix in fixes), open_commits
        )
        proposed: dict[FixKey, ProposingPull] = {}
        for pull in pulls:
            for fix in fixes:
                if fix.key not in proposed and fix.is_in(versions.get(pull.head_commit, {})):
                    proposed[fix.key] = ProposingPull(pull.number, pull.url)
        unread = frozenset(pull.number for pull in pulls if pull.head_commit not in versions)
        return Proposals(proposed, unread)

    async def _read_versions(
        self,
        repo: ScannedRepo,
        pulls: Collection[_OpenPull],
        locations: frozenset[Location],
        open_commits: CommitsOpener | None,
    ) -> dict[str, Versions]:
        """Reads versions by head commit, without commits that do not exist."""
        by_commit: dict[str, Versions] = {}
        unread = []
        for commit in dict.fromkeys(pull.head_commit for pull in pulls):
            known = self._known.get((repo.id, commit, locations))
            if known is None:
                unread.append(commit)
            else:
                by_commit[commit] = known
        if unread:
            opening = open_commits(unread) if open_commits else self._open_commits(repo, unread)
            async with opening as git_dir:
                for commit in unread:
                    # A refused fetch may leave it without its files, and the index has cached
                    # those of others.
                    if await has_whole_tree(git_dir, commit):
                        versions = await self._versions_at(git_dir, commit, locations)
                        self._known.put((repo.id, commit, locations), versions, 1 + len(locations))
                        by_commit[commit] = versions
        return by_commit

    async def _open_pulls(self, repo: ScannedRepo) -> list[_OpenPull]:
        if not repo.connection_id:
            return await self._local_pulls(repo)
        if self._platforms is None:
            return []
        budget = RetryBudget(_RETRY_SECONDS)
        platform = await self._platforms.adapter_for(repo.connection_id, budget)
        return [
            _OpenPull(pull.number, pull.url, pull.title, pull.head_commit)
            for pull in await platform.open_pulls(repo.address, repo.default_branch)
            if _COMMIT.fullmatch(pull.head_commit)
        ]

    async def _local_pulls(self, repo: ScannedRepo) -> list[_OpenPull]:
        rows = await self._db.fetch_all(
            "SELECT number, title, head_commit FROM pulls WHERE repo_id = :repo_id"
            " AND state = 'open' AND base_branch = :branch ORDER BY number DESC LIMIT 100",
            repo_id=repo.id,
            branch=repo.default_branch,
        )
        base = self._settings.effective_public_url
        return [
            _OpenPull(
                row["number"],
                base + pull_path(repo.organization, repo.full_name, row["number"]),
                row["title"],
                row["head_commit"],
            )
            for row in rows
        ]

    @asynccontextmanager
    async def _open_commits(
        self, repo: ScannedRepo, commits: Collection[str]
    ) -> AsyncIterator[Path]:
        path = repositories.path(self._settings.repositories_path, repo.id)
        if not repo.connection_id or self._platforms is None:
            # Only some processes can reach the repositories of `local`.
            if not (path / "HEAD").is_file():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            yield path
            return
        platform = await self._platforms.adapter_for(repo.connection_id)
        scratch = self._settings.data_path
        async with (
            platform.open_remote(repo.address, "") as remote,
            fetch_heads(remote, path, commits, scratch=scratch) as git_dir,
        ):
            yield git_dir

    async def _versions_at(
        self, git_dir: Path, commit: str, locations: frozenset[Location]
    ) -> Versions:
        reading = await read_dependencies(git_dir, commit, self._settings)
        versions: dict[Location, frozenset[str]] = {}
        for dependency in reading.dependencies:
            location = (dependency.manifest, dependency.ecosystem, dependency.name)
            if location in locations and dependency.version is not None:
                versions[location] = versions.get(location, frozenset()) | {dependency.version}
        return versions


def _most_likely(
    pulls: Sequence[_OpenPull], names: Collection[str], known: Collection[int]
) -> list[_OpenPull]:
    """The known ones first, then those whose title names a package; each of these groups stays in
    its order."""
    folded = [name.casefold() for name in names]

    def rank(pull: _OpenPull) -> tuple[bool, bool]:
        title = pull.title.casefold()
        return pull.number not in known, not any(name in title for name in folded)

    return sorted(pulls, key=rank)[:MAX_PULLS]
