"""/repos: connected repositories, imports in progress, and connecting by https URL."""

from typing import Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.views.repo_lines import Order, RepoFilter, State, list_repo_lines
from agentjobs.organizations.organizations import find_organization
from agentjobs.repos.imports.rows import dismiss, list_imports
from agentjobs.web.dashboard.list_query import ListQuery, PageNumber
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.repos.index_text import PLATFORM_NAMES, index_state
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.feed_state import has_advisories
from agentjobs_runtime.problems import Problem

PATH = "/repos"

_PER_PAGE = 50
_STATE_NAMES: dict[State, str] = {
    "ready": "Ready",
    "indexing": "Indexing",
    "failing": "With errors",
}
_ORDER_NAMES: dict[Order, str] = {
    "active": "Latest job",
    "vulnerable": "Vulnerabilities",
    "name": "Name",
}
_FIELD_OF = {
    "invalid_source": "address",
    "invalid_name": "name",
    "name_taken": "name",
    "invalid_credential": "token",
}


class _Query(ListQuery, frozen=True, kw_only=True):
    q: str = ""
    platform: Annotated[str, Meta(pattern=f"^({'|'.join(PLATFORM_NAMES)})$")] = ""
    state: State | None = None
    order: Order = "active"
    page: PageNumber = 1

    @property
    def filter(self) -> RepoFilter:
        return RepoFilter(search=self.q, platform=self.platform or None, state=self.state)


async def connect(request: PageRequest) -> Response:
    """Tenants can connect https URLs only. Paths require the operator's command line."""
    form = request.form
    await request.context.imports.start(
        await find_organization(request.db, request.organization),
        form.text("address"),
        name=form.optional("name"),
        user=form.text("user"),
        token=form.text("token"),
    )
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


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    query = _Query.read(request.query_param)
    lines = await list_repo_lines(
        request.db,
        request.organization_id,
        query.filter,
        order=query.order,
        limit=_PER_PAGE + 1,
        offset=(query.page - 1) * _PER_PAGE,
    )
    page_url = f"{request.settings.public_path}{PATH}"
    has_more = len(lines) > _PER_PAGE
    shown = problem and _for_page(problem)
    errors = dict.fromkeys(_FIELD_OF.values(), "")
    if shown and shown.code in _FIELD_OF:
        errors[_FIELD_OF[shown.code]] = shown.message
    form_values: dict[str, Any] = {
        name: request.form.text(name) for name in ("address", "name", "user")
    }
    return await request.render(
        "repos/list.html",
        problem=shown,
        field_errors=errors,
        **form_values,
        platform_options=[("", "any"), *PLATFORM_NAMES.items()],
        state_options=[("", "any"), *_STATE_NAMES.items()],
        order_options=list(_ORDER_NAMES.items()),
        query=query,
        lines=[(line, index_state(line.repo)) for line in lines[:_PER_PAGE]],
        imports=await list_imports(request.db, request.organization_id),
        is_scanned=await has_advisories(request),
        platforms=PLATFORM_NAMES,
        next=query.address(page_url, page=query.page + 1) if has_more else "",
        first=query.address(page_url, page=1) if query.page > 1 else "",
    )


def _for_page(problem: Problem) -> Problem:
    if problem.code != "invalid_name":
        return problem
    message = "Enter a name such as owner/name, with letters and digits, and with _ . - in between."
    return Problem(problem.code, message)


ROUTES: Routes = [
    *live_page(PATH, "viewer", show, "repos/rows", topics=("index", "repos", "findings")),
    PageRoute("POST", PATH, "admin", connect, problem_page=show),
    PageRoute("POST", f"{PATH}/imports/{{id}}/cancel", "admin", cancel_import),
    PageRoute("POST", f"{PATH}/imports/{{id}}/dismiss", "admin", dismiss_import),
]
