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
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.web.dashboard.text.diff_view import Ends


async def show_all(visit: Visit) -> Response:
    job_id = await job_id_of(visit)
    facts = await job_facts(visit.context.jobs, visit.organization_id, job_id)
    ends = ends_of(facts)
    if ends is None:
        raise Problem("not_found", "This job changed nothing that can be shown here.")
    if not await _is_here(visit, facts, (ends.base, ends.head)):
        return await _elsewhere(visit, job_id)
    view = await whole_diff(visit, ends)
    lazy_url = addresses_of_files(visit, view, ends, f"/jobs/{job_id}/changes/file")
    if visit.request.headers.get("x-part"):
        html = await visit.fragment("changes/all_part.html", view=view, lazy_url=lazy_url)
        return visit.part(html)
    return await visit.page(
        "changes/all.html", view=view, lazy_url=lazy_url, back=f"/jobs/{job_id}"
    )


async def show_one(visit: Visit) -> Response:
    job_id = await job_id_of(visit)
    facts = await job_facts(visit.context.jobs, visit.organization_id, job_id)
    ends = ends_of(facts)
    if ends is not None and not await _is_here(visit, facts, (ends.base, ends.head)):
        raise Problem("not_found", "The platform of this repository shows what the job changed.")
    return await show_file(visit, facts.repo_id, f"/jobs/{job_id}")


def ends_of(facts: JobFacts) -> Ends | None:
    """Of the job itself: what others did on its branch later is not its work."""
    if not facts.base_commit or not facts.head_commit:
        return None
    return Ends(facts.repo_id, facts.base_commit, facts.head_commit)


async def _is_here(visit: Visit, facts: JobFacts, commits: tuple[str, str]) -> bool:
    """A repository of the platform `local` has all of its commits, or something is wrong."""
    if facts.platform == "local":
        return True
    git_dir = git_path(visit.settings.data_path, facts.repo_id)
    if not (git_dir / "HEAD").is_file():
        return False
    return all([await has_commit(git_dir, commit) for commit in commits])


async def _elsewhere(visit: Visit, job_id: str) -> Response:
    job = await get_job(visit.context.jobs, visit.organization_id, job_id)
    if visit.request.headers.get("x-part"):
        return visit.part(await visit.fragment("changes/elsewhere_part.html", job=job))
    return await visit.page("changes/elsewhere.html", job=job, back=f"/jobs/{job_id}")


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/jobs/{job_id}/changes", "viewer", show_all),
    Place("GET", "/jobs/{job_id}/changes/file", "viewer", show_one),
]
