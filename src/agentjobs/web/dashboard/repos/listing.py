"""/repos: what is connected, what is on its way in, and connecting by an https address."""

from typing import Any

from starlette.responses import Response

from agentjobs.organizations.organizations import Organization
from agentjobs.problems import Problem
from agentjobs.repos.import_rows import dismiss, list_imports
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.places import OpenPlace, Place
from agentjobs.web.dashboard.visits import Visit

HERE = "/repos"


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def stream(visit: Visit) -> Response:
    async def parts() -> Parts:
        return {"repo-rows": await visit.fragment("repos/rows.html", **await _rows(visit))}

    return live_parts(visit, ("index", "repos"), parts)


async def connect(visit: Visit) -> Response:
    """By a tenant: an https address through the guard. Paths are the operator's command line's."""
    form, viewer = visit.form, visit.viewer
    typed = {name: form.text(name) for name in ("address", "name", "user")}
    owner = Organization(viewer.organization_id, viewer.organization, viewer.plan, 0)
    try:
        started = await visit.context.imports.start(
            owner,
            typed["address"],
            name=typed["name"] or None,
            user=typed["user"],
            token=form.text("token"),
        )
    except Problem as problem:
        return await _page(visit, problem, **typed)
    return visit.redirect(HERE, said=f"{started.full_name} is being fetched.")


async def forget_import(visit: Visit) -> Response:
    await dismiss(visit.db, visit.organization_id, visit.path("id"))
    return visit.redirect(HERE)


async def _page(visit: Visit, problem: Problem | None = None, **typed: str) -> Response:
    shown: dict[str, Any] = {"address": "", "name": "", "user": "", **typed}
    return await visit.page("repos/list.html", problem=problem, **await _rows(visit), **shown)


async def _rows(visit: Visit) -> dict[str, Any]:
    return {
        "repos": await list_repos(visit.db, visit.organization_id),
        "imports": await list_imports(visit.db, visit.organization_id),
    }


PLACES: list[Place | OpenPlace] = [
    Place("GET", HERE, "viewer", show),
    Place("GET", f"{HERE}/stream", "viewer", stream),
    Place("POST", HERE, "admin", connect),
    Place("POST", f"{HERE}/imports/{{id}}/dismiss", "admin", forget_import),
]
