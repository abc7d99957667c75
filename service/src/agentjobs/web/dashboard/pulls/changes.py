"""What a pull request changes: its commits, and its files on a page or one at a time.

Each user marks files as viewed; a mark holds until the file changes again.
"""

from collections.abc import Mapping

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from agentjobs.jobs.views.listing import lines_of_pull
from agentjobs.pulls.pulls import Pull
from agentjobs.pulls.viewed_files import list_viewed, mark_viewed
from agentjobs.web.dashboard.diff_pages import diff_page, keep_view, show_file, shows_split
from agentjobs.web.dashboard.jobs.changes import load_changes
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pulls.comparison_cache import Comparison, load_comparison
from agentjobs.web.dashboard.pulls.line_form import (
    LineForm,
    render_form,
    requested_form,
    shows_line,
)
from agentjobs.web.dashboard.pulls.pull_tabs import PATH, find_local_pull, find_pull, tab_values
from agentjobs.web.dashboard.pulls.threads import (
    load_conversation,
    load_threads_of_file,
    render_inserts,
)
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_rows import NO_INSERTS, Place
from agentjobs.web.dashboard.text.diff_view import DiffView, FileView
from agentjobs_runtime.problems import Problem


async def show_commits(request: PageRequest) -> Response:
    pull = await find_local_pull(request)
    return await request.render("pulls/commits.html", **await tab_values(request, pull, "commits"))


async def show_files(request: PageRequest) -> Response:
    pull = await find_pull(request)
    if pull.url is not None:
        return await _show_files_of_platform(request, pull)
    if request.http.headers.get("x-part"):
        return await _form_part(request, pull)
    return keep_view(request, await files_page(request, pull))


async def files_page(
    request: PageRequest, pull: Pull, problem: Problem | None = None, form: LineForm | None = None
) -> Response:
    """`form` is that of a comment, as it was sent."""
    values = await tab_values(request, pull, "files")
    comparison: Comparison = values["comparison"]
    view = comparison.view
    jobs = await lines_of_pull(request.db, pull.repo_id, pull.number)
    conversation = await load_conversation(request, pull, comparison, jobs)
    inserts = {
        path: await render_inserts(request, pull, threads)
        for path, threads in conversation.by_file().items()
    }
    if form is None and request.may("member"):
        form = requested_form(request, view)
    html = form and await render_form(request, pull, view, form)
    if form and html and shows_line(view, form):
        below = inserts.setdefault(form.path, {})
        below[form.place] = below.get(form.place, Markup()) + html
        html = None
    changes = diff_page(request, view, comparison.ends, f"{pull.path}/files", f"{pull.path}/file")
    return await request.render(
        "pulls/files.html",
        **values,
        problem=problem,
        conversation=conversation,
        changes=msgspec.structs.replace(
            changes,
            inserts=lambda path: inserts.get(path, NO_INSERTS),
            viewed=await _viewed(request, pull, view),
        ),
        # The form for a line that is not on the page.
        line_form=html,
    )


async def _form_part(request: PageRequest, pull: Pull) -> Response:
    """The row with the form below a line, for the script."""
    comparison = await load_comparison(request, pull)
    form = requested_form(request, comparison.view)
    if form is None or not request.may("member"):
        raise Problem("not_found", "There is no such line. Reload the page.")
    html = await render_form(request, pull, comparison.view, form)
    columns = 4 if shows_split(request) else 3
    row = Markup('<tr class="insert"><td class="insert" colspan="{}">{}</td></tr>')
    return request.part(row.format(columns, html))


async def _show_files_of_platform(request: PageRequest, pull: Pull) -> Response:
    """What one of its jobs changed: the branch is on the platform only."""
    jobs = [
        job for job in await lines_of_pull(request.db, pull.repo_id, pull.number) if job.pr_number
    ]
    job_ids = [job.job_id for job in jobs]
    if not job_ids:
        raise Problem("not_found", "View the changes on the platform of this pull request.")
    chosen = request.query_param("job")
    job_id = chosen if chosen in job_ids else job_ids[-1]
    loaded = await load_changes(request, job_id)
    changes = None
    if loaded is not None:
        path = f"{pull.path}/files"
        changes = diff_page(request, loaded.view, loaded.ends, path, f"/jobs/{job_id}/changes/file")
        changes = msgspec.structs.replace(changes, parameters={"job": job_id} if chosen else {})
    page = await request.render(
        "pulls/platform_files.html",
        pull=pull,
        tab="files",
        jobs=jobs,
        job_id=job_id,
        changes=changes,
        is_truncated=loaded is not None and loaded.is_truncated,
    )
    return keep_view(request, page)


async def show_one_file(request: PageRequest) -> Response:
    pull = await find_local_pull(request)

    async def inserts(file: FileView) -> Mapping[Place, Markup]:
        threads = await load_threads_of_file(request, pull, file.path)
        return await render_inserts(request, pull, threads)

    return await show_file(request, pull.repo_id, f"{pull.path}/files", inserts)


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


async def _viewed(request: PageRequest, pull: Pull, view: DiffView) -> set[str] | None:
    """The keys of files that have not changed since the viewer marked them; None for API keys."""
    if not request.viewer.session:
        return None
    marks = await list_viewed(request.db, pull, request.viewer.user_id)
    return {file.key for file in view.files if marks.get(file.key) == file.blob_id}


ROUTES: Routes = [
    PageRoute("GET", f"{PATH}/commits", "viewer", show_commits, takes_keys=True),
    PageRoute("GET", f"{PATH}/files", "viewer", show_files, takes_keys=True),
    PageRoute("POST", f"{PATH}/files/{{key}}/viewed", "viewer", mark),
    PageRoute("GET", f"{PATH}/file", "viewer", show_one_file, takes_keys=True),
]
