"""/repos: what is connected, what is on its way in, and connecting by an https address."""

from typing import Any

from starlette.responses import Response

from agentjobs.organizations.organizations import find_organization
from agentjobs.problems import Problem
from agentjobs.repos.imports.rows import dismiss, list_imports
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit

HERE = "/repos"

_FIELD_OF = {
    "invalid_source": "address",
    "invalid_name": "name",
    "name_taken": "name",
    "invalid_credential": "token",
}


async def show(visit: Visit) -> Response:
    return await _page(visit)


async def stream(visit: Visit) -> Response:
    async def parts() -> Parts:
        return {"repo-rows": await visit.fragment("repos/rows.html", **await _rows(visit))}

    return live_parts(visit, ("index", "repos"), parts)


async def connect(visit: Visit) -> Response:
    """By a tenant: an https address through the guard. Paths are the operator's command line's."""
    form = visit.form
    typed = {name: form.text(name) for name in ("address", "name", "user")}
    try:
        started = await visit.context.imports.start(
            await find_organization(visit.db, visit.organization),
            typed["address"],
            name=typed["name"] or None,
            user=typed["user"],
            token=form.text("token"),
        )
    except Problem as problem:
        return await _page(visit, _for_people(problem), **typed)
    return visit.redirect(HERE, said=f"{started.full_name} is being fetched.")


async def cancel_import(visit: Visit) -> Response:
    full_name = await visit.context.imports.cancel(visit.organization_id, visit.path("id"))
    return visit.redirect(HERE, said=f"{full_name} is not being fetched any more.")


async def forget_import(visit: Visit) -> Response:
    await dismiss(visit.db, visit.organization_id, visit.path("id"))
    return visit.redirect(HERE)


async def _page(visit: Visit, problem: Problem | None = None, **typed: str) -> Response:
    shown: dict[str, Any] = {"address": "", "name": "", "user": "", **typed}
    faults = dict.fromkeys(_FIELD_OF.values(), "")
    if problem and problem.code in _FIELD_OF:
        faults[_FIELD_OF[problem.code]] = problem.message
    return await visit.page(
        "repos/list.html", problem=problem, faults=faults, **await _rows(visit), **shown
    )


def _for_people(problem: Problem) -> Problem:
    if problem.code != "invalid_name":
        return problem
    message = (
        "This cannot be the repository's name here: write one like owner/name, made of letters, "
        "digits, and _ . - inside."
    )
    return Problem(problem.code, message)


async def _rows(visit: Visit) -> dict[str, Any]:
    return {
        "repos": await list_repos(visit.db, visit.organization_id),
        "imports": await list_imports(visit.db, visit.organization_id),
    }


PLACES: list[Place | OpenPlace] = [
    Place("GET", HERE, "viewer", show),
    Place("GET", f"{HERE}/stream", "viewer", stream),
    Place("POST", HERE, "admin", connect),
    Place("POST", f"{HERE}/imports/{{id}}/cancel", "admin", cancel_import),
    Place("POST", f"{HERE}/imports/{{id}}/dismiss", "admin", forget_import),
]
