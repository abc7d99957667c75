"""What a job changed, of a repository that is kept here: fetched by its page when it is opened."""

from starlette.responses import Response

from agentjobs.jobs.page_facts import JobFacts, job_facts
from agentjobs.problems import Problem
from agentjobs.web.dashboard.changes import addresses_of_files, show_file, whole_diff
from agentjobs.web.dashboard.diff_view import Ends
from agentjobs.web.dashboard.jobs.identity import job_id_of
from agentjobs.web.dashboard.places import OpenPlace, Place
from agentjobs.web.dashboard.visits import Visit


async def show_all(visit: Visit) -> Response:
    job_id = await job_id_of(visit)
    facts = await job_facts(visit.context.jobs, visit.organization_id, job_id)
    ends = ends_of(facts)
    if ends is None:
        raise Problem("not_found", "This job changed nothing that can be shown here.")
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
    return await show_file(visit, facts.repo_id, f"/jobs/{job_id}")


def ends_of(facts: JobFacts) -> Ends | None:
    """Of the job itself: what others did on its branch later is not its work."""
    if facts.platform != "local" or not facts.base_commit or not facts.head_commit:
        return None
    return Ends(facts.repo_id, facts.base_commit, facts.head_commit)


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/jobs/{job_id}/changes", "viewer", show_all),
    Place("GET", "/jobs/{job_id}/changes/file", "viewer", show_one),
]
