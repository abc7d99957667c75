"""What a pull request changes: its commits, and its files on a page or one at a time."""

from starlette.responses import Response

from agentjobs.web.dashboard.diff_pages import diff_page, keep_view, show_file
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pulls.pull_tabs import PATH, find_local_pull, tab_values
from agentjobs.web.dashboard.request_context import PageRequest


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
    page = await request.render("pulls/files.html", **values, changes=changes)
    return keep_view(request, page)


async def show_one_file(request: PageRequest) -> Response:
    pull = await find_local_pull(request)
    return await show_file(request, pull.repo_id, f"{pull.path}/files")


ROUTES: Routes = [
    PageRoute("GET", f"{PATH}/commits", "viewer", show_commits, takes_keys=True),
    PageRoute("GET", f"{PATH}/files", "viewer", show_files, takes_keys=True),
    PageRoute("GET", f"{PATH}/file", "viewer", show_one_file, takes_keys=True),
]
