"""The repository that an address names, and its other pages."""

from agentjobs.problems import Problem
from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.web.dashboard.other_organizations import look_elsewhere_for_repo
from agentjobs.web.dashboard.repo_addresses import REPO
from agentjobs.web.dashboard.request_context import PageRequest

PLACE = f"/repos/{REPO}"


class NoSuchRepository(Problem):
    """None of this name is connected to the organization."""


async def repo_of(request: PageRequest) -> RepoView:
    """One that is there; a refusal in words for people otherwise."""
    full_name = request.path_param("full_name")
    try:
        return await find_repo(request.db, request.organization_id, full_name)
    except Problem:
        await look_elsewhere_for_repo(request, full_name)
        raise NoSuchRepository(
            "not_found", "No repository of this name is connected to your organization."
        ) from None
