"""What a job changed: fetched by its page when it is opened, from the copy that is kept here.

A platform's own work is not copied before it is merged: then its platform is named instead.
"""

from starlette.responses import Response

from agentjobs.git.refs import has_commit
from agentjobs.jobs.views.detail_queries import JobFacts, job_facts
from agentjobs.jobs.views.queries import get_job
from agentjobs.local_git.repositories import path as git_path
from agentjobs.problems import Problem
from agentjobs.web.dashboard.diff_pages import addresses_of_files, show_file, whole_diff
from agentjobs.web.dashboard.jobs.lookup import job_id_of
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import Ends


async def show_all(request: PageRequest) -> Response:
    job_id = await job_id_of(request)
    facts = await job_facts(request.context.jobs, request.organization_id, job_id)
    ends = ends_of(facts)
    if ends is None:
        raise Problem("not_found", "This job changed nothing that can be shown here.")
    if not await _is_here(request, facts, (ends.base, ends.head)):
        return await _elsewhere(request, job_id)
    view = await whole_diff(request, ends)
    lazy_url = addresses_of_files(request, view, ends, f"/jobs/{job_id}/changes/file")
    if request.http.headers.get("x-part"):
        html = await request.fragment("changes/all_part.html", view=view, lazy_url=lazy_url)
        return request.part(html)
    return await request.render(
        "changes/all.html", view=view, lazy_url=lazy_url, back=f"/jobs/{job_id}"
    )


async def show_one(request: PageRequest) -> Response:
    job_id = await job_id_of(request)
    facts = await job_facts(request.context.jobs, request.organization_id, job_id)
    ends = ends_of(facts)
    if ends is not None and not await _is_here(request, facts, (ends.base, ends.head)):
        raise Problem("not_found", "The platform of this repository shows what the job changed.")
    return await show_file(request, facts.repo_id, f"/jobs/{job_id}")


def ends_of(facts: JobFacts) -> Ends | None:
    """Of the job itself: what others did on its branch later is not its work."""
    if not facts.base_commit or not facts.head_commit:
        return None
    return Ends(facts.repo_id, facts.base_commit, facts.head_commit)


async def _is_here(request: PageRequest, facts: JobFacts, commits: tuple[str, str]) -> bool:
    """A repository of the platform `local` has all of its commits, or something is wrong."""
    if facts.platform == "local":
        return True
    git_dir = git_path(request.settings.data_path, facts.repo_id)
    if not (git_dir / "HEAD").is_file():
        return False
    return all([await has_commit(git_dir, commit) for commit in commits])


async def _elsewhere(request: PageRequest, job_id: str) -> Response:
    job = await get_job(request.context.jobs, request.organization_id, job_id)
    if request.http.headers.get("x-part"):
        return request.part(await request.fragment("changes/elsewhere_part.html", job=job))
    return await request.render("changes/elsewhere.html", job=job, back=f"/jobs/{job_id}")


ROUTES: Routes = [
    PageRoute("GET", "/jobs/{job_id}/changes", "viewer", show_all),
    PageRoute("GET", "/jobs/{job_id}/changes/file", "viewer", show_one),
]
