"""Finds a missing job or repository in the viewer's other organizations.

Reveals nothing about organizations the viewer is not a member of.
"""

from typing import Any

from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

_MEMBER_JOIN = (
    " JOIN memberships m ON m.organization_id = resource.organization_id AND m.user_id = :user_id"
    " JOIN organizations o ON o.id = m.organization_id"
)


class InOtherOrganization(Problem):
    """`path` is the path of the page, which exists in each of `organizations`."""

    def __init__(self, path: str, organizations: list[str]) -> None:
        named = " and ".join(organizations)
        many = "s" if len(organizations) > 1 else ""
        message = (
            f"This is in the organization{many} {named}. You are viewing another organization."
        )
        super().__init__("not_found", message)
        self.path = path
        self.organizations = organizations


async def check_other_organizations_for_job(request: PageRequest, job_id: str) -> None:
    """Raises InOtherOrganization if the job is there."""
    sql = f"SELECT o.name FROM jobs resource{_MEMBER_JOIN} WHERE resource.id = :id"
    await _check(request, f"/jobs/{job_id}", sql, id=job_id)


async def check_other_organizations_for_repo(request: PageRequest, full_name: str) -> None:
    """Raises InOtherOrganization if the repository is there; several may have this name."""
    sql = (
        f"SELECT o.name FROM repos resource{_MEMBER_JOIN} WHERE resource.full_name = :full_name"
        " AND resource.disconnected_at IS NULL ORDER BY o.name"
    )
    await _check(request, f"/repos/{full_name}", sql, full_name=full_name)


async def _check(request: PageRequest, path: str, sql: str, **parameters: Any) -> None:
    rows = await request.db.fetch_all(sql, user_id=request.viewer.user_id, **parameters)
    names = [row["name"] for row in rows if row["name"] != request.organization]
    if names:
        raise InOtherOrganization(path, names)
