"""Which environment a commit asks for: the service's own definition, or the repository's files."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import msgspec

from agentjobs.environments.repo_settings import RepoSettings, load_repo_settings
from agentjobs.inventory.commit_summary import CommitSummary
from agentjobs.store.database import Database
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.devcontainer import DevcontainerError, parse_devcontainer
from agentjobs_runtime.environments.key import MAX_FILES, CacheFile, EnvironmentRequest
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.trees import REGULAR, list_tree
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.repo_configuration import Configuration
from agentjobs_runtime.repo_files.patterns import fold_path, parse_patterns


class RequestedEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """`notes` are for the log. A devcontainer may have been written for people alone."""

    request: EnvironmentRequest
    settings: RepoSettings
    is_devcontainer: bool = False
    notes: tuple[str, ...] = ()

    def is_trusted(self, branch: str, default_branch: str) -> bool:
        """Whether setup of this branch gets network and secrets."""
        return branch in (default_branch, *self.settings.trusted_branches)


async def load_request(
    db: Database,
    repo_id: str,
    mirror: Path,
    commit: str,
    summary: CommitSummary,
    configuration: Configuration,
) -> RequestedEnvironment:
    """Raises EnvironmentFailed."""
    settings = await load_repo_settings(db, repo_id)
    definition = settings.definition or configuration.environment
    notes: tuple[str, ...] = ()
    is_devcontainer = False
    if definition is None and summary.devcontainer is not None:
        definition, notes = await asyncio.to_thread(_read_devcontainer, summary.devcontainer)
        is_devcontainer = definition is not None
    definition = definition or EnvironmentDefinition()
    files = summary.lock_files
    if definition.cache is not None:
        files = await _read_cache_files(mirror, commit, definition.cache)
    request = EnvironmentRequest(definition=definition, files=files, generation=settings.generation)
    return RequestedEnvironment(
        request=request, settings=settings, is_devcontainer=is_devcontainer, notes=notes
    )


def _read_devcontainer(content: bytes) -> tuple[EnvironmentDefinition | None, tuple[str, ...]]:
    """The file is for people's editors too, so that one which is invalid fails no job."""
    try:
        parsed = parse_devcontainer(content)
    except DevcontainerError as error:
        return None, (str(error),)
    return parsed.definition, parsed.notes


async def _read_cache_files(
    mirror: Path, commit: str, paths: tuple[str, ...]
) -> tuple[CacheFile, ...]:
    """The files that match, up to a number. The size of the tree has been checked."""
    patterns = parse_patterns(paths)
    files: list[CacheFile] = []
    try:
        async with aclosing(list_tree(mirror, commit)) as entries:
            async for entry in entries:
                path = fold_path(entry.path)
                if entry.mode in REGULAR and any(pattern.matches(path) for pattern in patterns):
                    files.append(CacheFile(entry.path.decode("utf-8", "replace"), entry.object_id))
    except GitError as error:
        raise EnvironmentFailed(f"The files in `cache` cannot be read: {error.reason}") from None
    return tuple(files[:MAX_FILES])
