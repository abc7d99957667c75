"""The diff of a job, read from the local copy of its repository or from the store.

Branches of other platforms are copied only once they are merged, and a job that failed has none.
"""

from typing import Any, NamedTuple

from starlette.responses import Response

from agentjobs.jobs.views.detail_queries import JobDetails, load_details
from agentjobs.jobs.views.queries import get_job
from agentjobs.local_git.repositories import path as git_path
from agentjobs.web.dashboard.diff_pages import (
    diff_page,
    file_page,
    keep_view,
    load_diff,
    show_file,
)
from agentjobs.web.dashboard.jobs.lookup import require_job_id
from agentjobs.web.dashboard.jobs.stored_changes import load_stored_diff, load_stored_file
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import CommitRange, DiffView
from agentjobs_runtime.git.refs import has_commit
from agentjobs_runtime.problems import Problem


class JobChanges(NamedTuple):
    """`ends` is None if the job has no commits; the diff may still be stored."""

    view: DiffView
    ends: CommitRange | None
    is_truncated: bool


async def load_changes(request: PageRequest, job_id: str) -> JobChanges | None:
    """None if only the platform has them. Raises Problem if there are none."""
    details = await load_details(request.context.jobs, request.organization_id, job_id)
    ends = find_commit_range(details)
    if ends is not None and await _has_commits(request, details, (ends.base, ends.head)):
        return JobChanges(await load_diff(request, ends), ends, is_truncated=False)
    if details.has_diff:
        view, is_truncated = await load_stored_diff(request, job_id)
        return JobChanges(view, ends, is_truncated)
    if ends is None:
        raise Problem("not_found", "This job has no changes to show.")
    return None


async def show_all(request: PageRequest) -> Response:
    job_id = await require_job_id(request)
    loaded = await load_changes(request, job_id)
    if loaded is None:
        return await _link_to_platform(request, job_id)
    path = f"/jobs/{job_id}/changes"
    changes = diff_page(request, loaded.view, loaded.ends, path, f"{path}/file")
    values: dict[str, Any] = {"changes": changes, "is_truncated": loaded.is_truncated}
    if request.http.headers.get("x-part"):
        return request.part(await request.fragment("changes/all_part.html", **values))
    page = await request.render("changes/all.html", **values, back=f"/jobs/{job_id}")
    return keep_view(request, page)


async def show_one_file(request: PageRequest) -> Response:
    job_id = await require_job_id(request)
    details = await load_details(request.context.jobs, request.organization_id, job_id)
    ends = find_commit_range(details)
    if ends is not None and await _has_commits(request, details, (ends.base, ends.head)):
        return await show_file(request, details.repo_id, f"/jobs/{job_id}")
    if not details.has_diff:
        raise Problem(
            "not_found", "View the changes of this job on the platform of its repository."
        )
    # Not stripped: a file name may start or end with a space.
    path = request.http.query_params.get("path", "")
    file = await load_stored_file(request, job_id, path)
    return await file_page(request, file, f"/jobs/{job_id}")


def find_commit_range(details: JobDetails) -> CommitRange | None:
    """The job's own commits, without later pushes to its branch."""
    if not details.base_commit or not details.head_commit:
        return None
    return CommitRange(details.repo_id, details.base_commit, details.head_commit)


async def _has_commits(request: PageRequest, details: JobDetails, commits: tuple[str, str]) -> bool:
    """Whether the local copy has these commits. `local` repositories always do."""
    if details.platform == "local":
        return True
    git_dir = git_path(request.settings.repositories_path, details.repo_id)
    if not (git_dir / "HEAD").is_file():
        return False
    return all([await has_commit(git_dir, commit) for commit in commits])


async def _link_to_platform(request: PageRequest, job_id: str) -> Response:
    """Redirects to the platform for a job that an earlier version ran."""
    job = await get_job(request.context.jobs, request.organization_id, job_id)
    if request.http.headers.get("x-part"):
        return request.part(await request.fragment("changes/on_platform_part.html", job=job))
    return await request.render("changes/on_platform.html", job=job, back=f"/jobs/{job_id}")


ROUTES: Routes = [
    PageRoute("GET", "/jobs/{job_id}/changes", "viewer", show_all),
    PageRoute("GET", "/jobs/{job_id}/changes/file", "viewer", show_one_file),
]
