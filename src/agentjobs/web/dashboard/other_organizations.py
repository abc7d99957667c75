"""What is not in the organization a viewer stands in, but in another of their own: where to go.

Tells nothing of organizations the viewer is not in.
"""

from typing import Any

from agentjobs.problems import Problem
from agentjobs.web.dashboard.request_context import PageRequest

_IN = (
    " JOIN memberships m ON m.organization_id = found.organization_id AND m.user_id = :user_id"
    " JOIN organizations o ON o.id = m.organization_id"
)


class InOtherOrganization(Problem):
    """`place` is where it is shown, to whoever stands in one of `organizations`."""

    def __init__(self, place: str, organizations: list[str]) -> None:
        named = " and ".join(organizations)
        many = "s" if len(organizations) > 1 else ""
        message = f"This is in the organization{many} {named}, and you look at another one now."
        super().__init__("not_found", message)
        self.place = place
        self.organizations = organizations


async def look_elsewhere_for_job(request: PageRequest, job_id: str) -> None:
    """Raises InOtherOrganization if it is there."""
    sql = f"SELECT o.name FROM jobs found{_IN} WHERE found.id = :id"
    await _look(request, f"/jobs/{job_id}", sql, id=job_id)


async def look_elsewhere_for_repo(request: PageRequest, full_name: str) -> None:
    """Raises InOtherOrganization if it is there; several may have one of this name."""
    sql = (
        f"SELECT o.name FROM repos found{_IN} WHERE found.full_name = :full_name"
        " AND found.disconnected_at IS NULL ORDER BY o.name"
    )
    await _look(request, f"/repos/{full_name}", sql, full_name=full_name)


async def _look(request: PageRequest, place: str, sql: str, **what: Any) -> None:
    rows = await request.db.fetch_all(sql, user_id=request.viewer.user_id, **what)
    names = [row["name"] for row in rows if row["name"] != request.organization]
    if names:
        raise InOtherOrganization(place, names)
