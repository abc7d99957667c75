"""Choosing a repository: from a list while there are few, else in a field with suggestions."""

from collections.abc import Sequence

import msgspec

from agentjobs.jobs.views.repo_lines import suggest_repos
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

MAX_OPTIONS = 100
_MAX_SIMILAR = 5


class RepoChoice(msgspec.Struct, frozen=True, kw_only=True):
    """`repo` is the connected one with the name. `repos` are all if `is_list`, else suggestions."""

    name: str
    repo: RepoView | None
    repos: Sequence[RepoView]
    is_list: bool
    has_repos: bool

    @property
    def options(self) -> list[tuple[str, str, str | None]]:
        """Repositories that are still indexing cannot be chosen for a job."""
        by_name = sorted(self.repos, key=lambda repo: repo.full_name)
        repos = by_name if self.is_list else self.repos
        return [
            (
                repo.full_name,
                repo.full_name,
                None if repo.index_status == "ready" else "still indexing",
            )
            for repo in repos
        ]

    @property
    def filter_options(self) -> list[tuple[str, str]]:
        unknown = [self.name] if self.is_unknown else []
        names = [*unknown, *(option[0] for option in self.options)]
        return [("", "any"), *((name, name) for name in names)]

    @property
    def is_unknown(self) -> bool:
        return bool(self.name) and self.repo is None

    @property
    def similar(self) -> Sequence[str]:
        """What may be meant by an unknown name; a list shows all names anyway."""
        is_needed = self.is_unknown and not self.is_list
        return [repo.full_name for repo in self.repos[:_MAX_SIMILAR]] if is_needed else []


async def load_repo_choice(request: PageRequest, name: str) -> RepoChoice:
    """`name` may be anything that a user entered, also nothing."""
    db, owner = request.db, request.organization_id
    repos = await suggest_repos(db, owner, limit=MAX_OPTIONS + 1)
    repo = await _find(request, name)
    has_repos, is_list = bool(repos), len(repos) <= MAX_OPTIONS
    if name and repo is None and not is_list:
        repos = await suggest_repos(db, owner, search=name, limit=MAX_OPTIONS)
    return RepoChoice(
        name=name, repo=repo, repos=repos[:MAX_OPTIONS], is_list=is_list, has_repos=has_repos
    )


async def _find(request: PageRequest, name: str) -> RepoView | None:
    if not name:
        return None
    try:
        return await find_repo(request.db, request.organization_id, name)
    except Problem:
        return None
