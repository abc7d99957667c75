"""What members do with a vulnerable package of a repository: fix it."""

from urllib.parse import parse_qsl, quote

from starlette.responses import Response

from agentjobs.jobs.operations.package_fix import fix_package
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.query import PATH, Query
from agentjobs_runtime.problems import Problem

_MAX_BACK_LENGTH = 2_000


async def fix(request: PageRequest) -> Response:
    finding_id = request.path_param("finding_id")
    before = form_page(request.form.text("advisory"), request.form.text("back"))
    try:
        await fix_package(request.context.jobs, request.viewer.caller, finding_id)
    except Problem as problem:
        if problem.code == "vulnerability_not_found":
            raise
        return request.redirect(before, banner=problem.message, tone="warn")
    return request.redirect(before, banner="Started a job that fixes the package.")


def form_page(advisory: str, back: str) -> str:
    """The page that a form is on: an advisory, or the list with its filters."""
    if advisory:
        return f"{PATH}/{quote(advisory[:200], safe='')}"
    fields = dict(parse_qsl(back[:_MAX_BACK_LENGTH].partition("?")[2]))
    return Query.read(lambda name: fields.get(name, "")).address(PATH)


ROUTES: Routes = [PageRoute("POST", f"{PATH}/packages/{{finding_id}}/fix", "member", fix)]
