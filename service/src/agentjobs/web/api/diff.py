"""What a job changed, as a unified diff or as JSON with its files."""

import asyncio
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from agentjobs.jobs.model import JobId
from agentjobs.jobs.results.diffs import JobDiff, load_diff
from agentjobs.local_git.unified_diff import PatchedFile, parse_unified
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.headers import names_type
from agentjobs.web.api.jobs import parse_job_id
from agentjobs_runtime.json_fields import Count, doc

DIFF_TEXT = "text/x-diff"
_TYPES = (DIFF_TEXT, "text/plain", "application/json")


class DiffFileView(msgspec.Struct, frozen=True):
    path: Annotated[str, doc("The path of the file; of a deleted file, the path it had.")]
    previous_path: Annotated[str | None, doc("The earlier path of a renamed file.")]
    status: Annotated[
        Literal["added", "modified", "deleted", "renamed"], doc("What happened to the file.")
    ]
    additions: Annotated[Count, doc("Lines added.")]
    deletions: Annotated[Count, doc("Lines deleted.")]
    binary: Annotated[bool, doc("Whether the file is binary, or too large to compare.")]
    patch: Annotated[str | None, doc("Its part of the unified diff; null for a binary file.")]


class DiffView(msgspec.Struct, frozen=True):
    job_id: JobId
    base_commit: Annotated[str | None, doc("The commit that the agent started from.")]
    head_commit: Annotated[str | None, doc("The job's commit; null until it is published.")]
    truncated: Annotated[bool, doc("Whether the diff is cut, because it has more than 1 MiB.")]
    files: Annotated[list[DiffFileView], doc("The files that changed.")]


async def show(call: Call) -> Response:
    job_id = parse_job_id(call)
    diff = await load_diff(call.context.jobs, call.caller.organization_id, job_id)
    media_type = next((name for name in _TYPES if names_type(call.scope, name)), DIFF_TEXT)
    headers = ((b"vary", b"accept"), (b"x-diff-truncated", str(diff.is_truncated).lower().encode()))
    if media_type == "application/json":
        # In a thread: a large diff would block the event loop.
        return Reply(200, msgspec.Raw(await asyncio.to_thread(_json, job_id, diff)), headers)
    response = Response(diff.content, media_type=media_type)
    response.raw_headers += [
        *headers,
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    return response


def _json(job_id: str, diff: JobDiff) -> bytes:
    files = [_file(file) for file in parse_unified(diff.content)]
    view = DiffView(job_id, diff.base_commit, diff.head_commit, diff.is_truncated, files)
    return msgspec.json.encode(view)


def _file(file: PatchedFile) -> DiffFileView:
    return DiffFileView(**msgspec.structs.asdict(file))
