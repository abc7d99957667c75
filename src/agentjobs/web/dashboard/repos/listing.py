"""/repos: connected repositories, imports in progress, and connecting by https URL."""

from typing import Any

from starlette.responses import Response

from agentjobs.organizations.organizations import find_organization
from agentjobs.problems import Problem
from agentjobs.repos.imports.rows import dismiss, list_imports
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest

PATH = "/repos"

_FIELD_OF = {
    "invalid_source": "address",
    "invalid_name": "name",
    "name_taken": "name",
    "invalid_credential": "token",
}


async def show(request: PageRequest) -> Response:
    return await _page(request)


async def stream(request: PageRequest) -> Response:
    async def parts() -> Parts:
        return {"repo-rows": await request.fragment("repos/rows.html", **await _rows(request))}

    return live_parts(request, ("index", "repos"), parts)


async def connect(request: PageRequest) -> Response:
    """Tenants can connect https URLs only. Paths require the operator's command line."""
    form = request.form
    form_values = {name: form.text(name) for name in ("address", "name", "user")}
    try:
        await request.context.imports.start(
            await find_organization(request.db, request.organization),
            form_values["address"],
            name=form_values["name"] or None,
            user=form_values["user"],
            token=form.text("token"),
        )
    except Problem as problem:
        return await _page(request, _for_page(problem), **form_values)
    # No banner: the list shows progress and errors.
    return request.redirect(PATH)


async def cancel_import(request: PageRequest) -> Response:
    full_name = await request.context.imports.cancel(
        request.organization_id, request.path_param("id")
    )
    return request.redirect(PATH, banner=f"Cancelled connecting {full_name}.")


async def dismiss_import(request: PageRequest) -> Response:
    await dismiss(request.db, request.organization_id, request.path_param("id"))
    return request.redirect(PATH)


async def _page(
    request: PageRequest, problem: Problem | None = None, **form_values: str
) -> Response:
    template_values: dict[str, Any] = {"address": "", "name": "", "user": "", **form_values}
    errors = dict.fromkeys(_FIELD_OF.values(), "")
    if problem and problem.code in _FIELD_OF:
        errors[_FIELD_OF[problem.code]] = problem.message
    return await request.render(
        "repos/list.html",
        problem=problem,
        field_errors=errors,
        **await _rows(request),
        **template_values,
    )


def _for_page(problem: Problem) -> Problem:
    if problem.code != "invalid_name":
        return problem
    message = "Enter a name such as owner/name, with letters and digits, and with _ . - in between."
    return Problem(problem.code, message)


async def _rows(request: PageRequest) -> dict[str, Any]:
    return {
        "repos": await list_repos(request.db, request.organization_id),
        "imports": await list_imports(request.db, request.organization_id),
    }


ROUTES: Routes = [
    PageRoute("GET", PATH, "viewer", show),
    PageRoute("GET", f"{PATH}/stream", "viewer", stream),
    PageRoute("POST", PATH, "admin", connect),
    PageRoute("POST", f"{PATH}/imports/{{id}}/cancel", "admin", cancel_import),
    PageRoute("POST", f"{PATH}/imports/{{id}}/dismiss", "admin", dismiss_import),
]
