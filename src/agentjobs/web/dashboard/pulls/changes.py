"""What a pull request changes: its commits, and its files on a page or one at a time.

Each user marks files as viewed; a mark holds until the file changes again.
"""

import msgspec
from starlette.responses import Response

from agentjobs.problems import Problem
from agentjobs.pulls.pulls import Pull
from agentjobs.pulls.viewed_files import list_viewed, mark_viewed
from agentjobs.web.dashboard.diff_pages import diff_page, keep_view, show_file
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pulls.comparison_cache import load_comparison
from agentjobs.web.dashboard.pulls.pull_tabs import PATH, find_local_pull, tab_values
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import DiffView


async def show_commits(request: PageRequest) -> Response:
    pull = await find_local_pull(request)
    return await request.render("pulls/commits.html", **await tab_values(request, pull, "commits"))


async def show_files(request: PageRequest) -> Response:
    pull = await find_local_pull(request)
    values = await tab_values(request, pull, "files")
    comparison = values["comparison"]
    changes = diff_page(
        request, comparison.view, comparison.ends, f"{pull.path}/files", f"{pull.path}/file"
    )
    if request.viewer.session:
        changes = msgspec.structs.replace(
            changes, viewed=await _viewed(request, pull, changes.view)
        )
    page = await request.render("pulls/files.html", **values, changes=changes)
    return keep_view(request, page)


async def show_one_file(request: PageRequest) -> Response:
    pull = await find_local_pull(request)
    return await show_file(request, pull.repo_id, f"{pull.path}/files")


async def mark(request: PageRequest) -> Response:
    """Marks a file as viewed, or removes the mark."""
    pull, key = await find_local_pull(request), request.path_param("key")
    comparison = await load_comparison(request, pull)
    if all(file.key != key for file in comparison.view.files):
        raise Problem("not_found", "The file was not changed. Reload the page with the changes.")
    blob_id = None if request.form.text("viewed") == "no" else request.query_param("blob")
    await mark_viewed(request.db, pull, request.viewer.user_id, key, blob_id)
    if request.http.headers.get("x-part"):
        return request.part(await request.fragment("pulls/form_token.html"))
    return request.redirect(f"{pull.path}/files#diff-{key}")


async def _viewed(request: PageRequest, pull: Pull, view: DiffView) -> set[str]:
    """The keys of files that have not changed since the viewer marked them."""
    marks = await list_viewed(request.db, pull, request.viewer.user_id)
    return {file.key for file in view.files if marks.get(file.key) == file.blob_id}


ROUTES: Routes = [
    PageRoute("GET", f"{PATH}/commits", "viewer", show_commits, takes_keys=True),
    PageRoute("GET", f"{PATH}/files", "viewer", show_files, takes_keys=True),
    PageRoute("POST", f"{PATH}/files/{{key}}/viewed", "viewer", mark),
    PageRoute("GET", f"{PATH}/file", "viewer", show_one_file, takes_keys=True),
]
