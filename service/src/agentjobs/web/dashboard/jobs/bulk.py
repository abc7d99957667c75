"""Cancels jobs that were selected in a list, or runs them again."""

from starlette.responses import Response

from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.retry import retry_job
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text_filters import counted
from agentjobs_runtime.problems import Problem

# As many as a page lists.
_MAX_JOBS = 50


async def change_selected(request: PageRequest) -> Response:
    """Changes the jobs that allow it; the banner says why others were not changed."""
    jobs = list(dict.fromkeys(request.form.all("job")))[:_MAX_JOBS]
    if not jobs:
        return request.redirect("/jobs", banner="Select jobs first.", tone="warn")
    is_cancel = request.form.text("change") == "cancel"
    changed, problems = 0, []
    for job_id in jobs:
        try:
            if is_cancel:
                await cancel_job(request.db, request.organization_id, job_id)
            else:
                await retry_job(request.context.jobs, request.viewer.caller, job_id)
            changed += 1
        except Problem as problem:
            problems.append(problem.message)
    word = "cancelled" if is_cancel else "started again"
    text = f"{counted(changed, 'job')} {word}."
    if problems:
        text += f" {counted(len(problems), 'job')} unchanged: {problems[0]}"
    return request.redirect("/jobs", banner=text, tone="warn" if problems else "good")


ROUTES: Routes = [PageRoute("POST", "/jobs/selected", "member", change_selected)]
