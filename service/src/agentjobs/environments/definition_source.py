"""Where the environment of a repository is defined, as of the head of its default branch."""

import asyncio
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from agentjobs.environments.repo_settings import RepoSettings, load_repo_settings
from agentjobs.environments.request import load_request
from agentjobs.inventory.commit_summary import CommitSummaryCache
from agentjobs.local_git.repositories import path as git_path
from agentjobs.repos.queries import RepoView
from agentjobs.store.database import Database
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.git.process import GitError
from agentjobs_runtime.git.refs import HEADS, resolve
from agentjobs_runtime.mirrors.errors import RepoUnavailable
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.repo_configuration import ConfigurationError

# `unknown`: the repository's files are not on this machine, or cannot be read.
Source = Literal["service", "file", "devcontainer", "none", "unknown"]


class DefinitionInEffect(msgspec.Struct, frozen=True, kw_only=True):
    """`request` is None if the files of the repository are unknown. `error`: its jobs fail."""

    source: Source
    definition: EnvironmentDefinition
    settings: RepoSettings
    request: EnvironmentRequest | None = None
    commit: str | None = None
    error: str = ""
    notes: tuple[str, ...] = ()


async def load_definition(db: Database, root: Path, repo: RepoView) -> DefinitionInEffect:
    """`root` is the directory of repositories, which only some machines have."""
    settings = await load_repo_settings(db, repo.id)
    stored = DefinitionInEffect(
        source="unknown" if settings.definition is None else "service",
        definition=settings.definition or EnvironmentDefinition(),
        settings=settings,
    )
    git_dir = git_path(root, repo.id)
    commit = None
    try:
        if (git_dir / "HEAD").is_file():
            commit = await resolve(git_dir, HEADS + repo.default_branch)
        return stored if commit is None else await _read(db, git_dir, repo, commit, settings)
    except ConfigurationError as error:
        fault = str(error)
    except (EnvironmentFailed, RepoUnavailable) as error:
        fault = str(error)
    except GitError as error:
        fault = f"The repository cannot be read: {error.reason}"
    return msgspec.structs.replace(stored, commit=commit, error=fault)


async def _read(
    db: Database, git_dir: Path, repo: RepoView, commit: str, settings: RepoSettings
) -> DefinitionInEffect:
    summary = await _summaries().load(git_dir, repo.id, commit)
    configuration = await asyncio.to_thread(summary.parse_configuration)
    requested = await load_request(db, repo.id, git_dir, commit, summary, configuration)
    source: Source = "none"
    if settings.definition is not None:
        source = "service"
    elif requested.is_devcontainer:
        source = "devcontainer"
    elif configuration.environment is not None:
        source = "file"
    return DefinitionInEffect(
        source=source,
        definition=requested.request.definition,
        settings=requested.settings,
        request=requested.request,
        commit=commit,
        notes=requested.notes,
    )


@cache
def _summaries() -> CommitSummaryCache:
    """The cache of this process: reading a large tree takes long."""
    return CommitSummaryCache()
