"""Finds the repository named in a path."""

from agentjobs.repos.queries import RepoView, find_repo
from agentjobs.web.dashboard.other_organizations import check_other_organizations_for_repo
from agentjobs.web.dashboard.page_route import REPO
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

REPO_PATH = f"/repos/{REPO}"


class NoSuchRepository(Problem):
    """No repository with this name is connected to the organization."""


async def require_repo(request: PageRequest) -> RepoView:
    """Raises NoSuchRepository if the organization has no such repository."""
    full_name = request.path_param("full_name")
    try:
        return await find_repo(request.db, request.organization_id, full_name)
    except Problem:
        await check_other_organizations_for_repo(request, full_name)
        raise NoSuchRepository(
            "not_found", "No repository with this name is connected to your organization."
        ) from None
