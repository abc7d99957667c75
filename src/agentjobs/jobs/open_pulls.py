"""Finds fixes that the open pull requests of a repository already have, whoever opened them.

Reads the manifests at their heads; titles and branch names prove nothing.
"""

import errno
import os
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from agentjobs.advisories.versions import version_key
from agentjobs.connections.adapters import Platforms
from agentjobs.forges.http.client import RetryBudget
from agentjobs.forges.protocol import RepoAddress
from agentjobs.git.process import git
from agentjobs.git.refs import has_commit
from agentjobs.inventory.indexing import read_dependencies
from agentjobs.jobs.auto_trigger_rows import FixKey
from agentjobs.jobs.proposed_fixes import ProposingPull
from agentjobs.local_git import repositories
from agentjobs.local_git.pull_heads import fetch_heads
from agentjobs.pulls.pulls import pull_path
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from agentjobs.weighted_cache import WeightedCache

MAX_PULLS = 20
_RETRY_SECONDS = 5.0
# With more manifests, whole trees are compared: a command line is limited.
_MAX_COMPARED = 200
_CACHED_VERSIONS = 50_000
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

# A manifest, an ecosystem, a package.
Location = tuple[str, str, str]
Versions = Mapping[Location, frozenset[str]]


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
        self, repo: ScannedRepo, fixes: Sequence[WantedFix]
    ) -> dict[FixKey, ProposingPull]:
        """Raises ForgeError, GitError, IndexFailure or OSError."""
        if not fixes:
            return {}
        pulls = _most_likely(await self._open_pulls(repo), {fix.key[2] for fix in fixes})
        locations = frozenset(fix.location for fix in fixes)
        unread = [p for p in pulls if self._known.get((repo.id, p.head_commit, locations)) is None]
        if unread:
            async with self._commits_of(repo, unread) as git_dir:
                await self._read(repo, git_dir, unread, locations)
        proposed: dict[FixKey, ProposingPull] = {}
        for pull in pulls:
            versions = self._known.get((repo.id, pull.head_commit, locations)) or {}
            for fix in fixes:
                if fix.key not in proposed and fix.is_in(versions):
                    proposed[fix.key] = ProposingPull(pull.number, pull.url)
        return proposed

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
    async def _commits_of(
        self, repo: ScannedRepo, pulls: Collection[_OpenPull]
    ) -> AsyncIterator[Path]:
        path = repositories.path(self._settings.repositories_path, repo.id)
        if not repo.connection_id or self._platforms is None:
            # Only some processes can reach the repositories of `local`.
            if not (path / "HEAD").is_file():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            yield path
            return
        platform = await self._platforms.adapter_for(repo.connection_id)
        commits = [pull.head_commit for pull in pulls]
        scratch = self._settings.data_path
        async with (
            platform.open_remote(repo.address, "") as remote,
            fetch_heads(remote, path, commits, scratch=scratch) as git_dir,
        ):
            yield git_dir

    async def _read(
        self,
        repo: ScannedRepo,
        git_dir: Path,
        pulls: Collection[_OpenPull],
        locations: frozenset[Location],
    ) -> None:
        manifests = sorted({manifest for manifest, _, _ in locations})
        if len(manifests) > _MAX_COMPARED:
            manifests = []
        base = await _blobs_of(git_dir, repo.head_commit, manifests)
        for pull in pulls:
            blobs = await _blobs_of(git_dir, pull.head_commit, manifests)
            if blobs is None:
                continue
            versions: Versions = {}
            if blobs != base:
                versions = await self._versions_at(git_dir, pull.head_commit, locations)
            key = (repo.id, pull.head_commit, locations)
            self._known.put(key, versions, 1 + len(locations))

    async def _versions_at(
        self, git_dir: Path, commit: str, locations: frozenset[Location]
    ) -> Versions:
        reading = await read_dependencies(git_dir, commit, self._settings)
        versions: dict[Location, frozenset[str]] = {}
        for each in reading.dependencies:
            location = (each.manifest, each.ecosystem, each.name)
            if location in locations and each.version is not None:
                versions[location] = versions.get(location, frozenset()) | {each.version}
        return versions


def _most_likely(pulls: Sequence[_OpenPull], names: Collection[str]) -> list[_OpenPull]:
    """Those first whose title names a package; each of these groups stays in its order."""
    folded = [name.casefold() for name in names]

    def names_no_package(pull: _OpenPull) -> bool:
        title = pull.title.casefold()
        return not any(name in title for name in folded)

    return sorted(pulls, key=names_no_package)[:MAX_PULLS]


async def _blobs_of(git_dir: Path, commit: str, paths: Sequence[str]) -> bytes | None:
    """A description of the files that changes whenever they do; None without the commit."""
    if not await has_commit(git_dir, commit):
        return None
    result = await git("ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths, git_dir=git_dir)
    return result.stdout
