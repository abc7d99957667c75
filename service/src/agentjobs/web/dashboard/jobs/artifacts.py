"""A file that a job's agent left, for the job's page."""

from starlette.responses import Response

from agentjobs.jobs.results.artifacts import find_artifact
from agentjobs.web.dashboard.jobs.lookup import require_job_id
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.downloads import artifact_download


async def download(request: PageRequest) -> Response:
    job_id = await require_job_id(request)
    artifact = await find_artifact(
        request.db, request.organization_id, job_id, request.path_param("name")
    )
    return artifact_download(request.db, job_id, artifact)


ROUTES: Routes = [PageRoute("GET", "/jobs/{job_id}/artifacts/{name}", "viewer", download)]
