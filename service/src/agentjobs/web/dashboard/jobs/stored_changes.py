"""The diff of a job as its worker stored it, for commits that no local repository has."""

import asyncio

from agentjobs.jobs.results.diffs import load_diff
from agentjobs.local_git.patch import DiffBounds, diff_of_files
from agentjobs.local_git.unified_diff import parse_unified
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import (
    DiffView,
    FileView,
    render_diff_view,
    render_file_view,
)
from agentjobs_runtime.problems import Problem

_ONE_FILE = DiffBounds(files=1, lines=10_000, file_lines=10_000, file_bytes=2 * 1024**2)


async def load_stored_diff(request: PageRequest, job_id: str) -> tuple[DiffView, bool]:
    """The diff, and whether it is cut."""
    diff = await load_diff(request.context.jobs, request.organization_id, job_id)
    is_complete = not diff.is_truncated
    view = await asyncio.to_thread(_render, diff.content, is_complete=is_complete)
    return view, diff.is_truncated


async def load_stored_file(request: PageRequest, job_id: str, path: str) -> FileView:
    diff = await load_diff(request.context.jobs, request.organization_id, job_id)
    is_complete = not diff.is_truncated
    view = await asyncio.to_thread(_render_file, diff.content, path, is_complete=is_complete)
    if view is None:
        raise Problem("not_found", "The file was not changed. Reload the page with the changes.")
    return view


def _render(content: bytes, *, is_complete: bool) -> DiffView:
    return render_diff_view(diff_of_files(parse_unified(content), complete=is_complete))


def _render_file(content: bytes, path: str, *, is_complete: bool) -> FileView | None:
    files = parse_unified(content)
    file = next((file for file in files if file.path == path), None)
    if file is None:
        return None
    is_whole = is_complete or file is not files[-1]
    diff = diff_of_files([file], complete=is_whole, bounds=_ONE_FILE)
    return render_file_view(diff.files[0], 1)
