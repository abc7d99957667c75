"""The pull request endpoints: pull requests that jobs opened, merging and closing them."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.organizations import audit
from agentjobs.platform_sync.pull_changes import close_platform_pull, merge_platform_pull
from agentjobs.platforms.protocol import MergeMethod
from agentjobs.pulls.branches import close_and_remove_branch
from agentjobs.pulls.merge import merge_pull
from agentjobs.pulls.pulls import (
    ID_PATTERN,
    Pull,
    PullCursor,
    get_pull_by_id,
    list_pulls,
    pull_of_job,
)
from agentjobs.repos.queries import get_repo
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.errors import validation_failed
from agentjobs.web.api.pagination import Cursor, Cursors, FilterText, NextCursor
from agentjobs.web.api.query import read_query
from agentjobs.web.api.requests import read_optional_object
from agentjobs.web.context import WebContext
from agentjobs_runtime.clock import iso_utc, iso_utc_or_none
from agentjobs_runtime.identifiers import id_pattern
from agentjobs_runtime.json_fields import (
    Rule,
    Timestamp,
    Url,
    copy_fields,
    doc,
    find_faults,
    known_values,
    select_fields,
    text,
)

_STATES = ("open", "merged", "closed")
# Creation time, number, repository.
_is_position = re.compile(r"([0-9]{1,15}):([0-9]{1,15}):([^\x00-\x20]{1,500})").fullmatch
_CURSORS = Cursors("pulls", _is_position)


class PullQuery(msgspec.Struct, frozen=True):
    repo: Annotated[
        FilterText | None,
        doc("Only pull requests of the repository with this identifier or full name."),
    ] = None
    state: Annotated[
        Literal["open", "merged", "closed"] | None, doc("Only pull requests in this state.")
    ] = None
    job_id: Annotated[
        Annotated[str, text(matching=Rule(id_pattern("job"), "must be the identifier of a job"))]
        | None,
        doc("Only the pull request that this job opened or continued."),
    ] = None
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=100)] = 20
    cursor: Cursor = None


class PullView(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, Meta(description="Pull request identifier.", pattern=ID_PATTERN)]
    repo: Annotated[str, doc("Repository full name, form `<owner>/<name>`.")]
    number: Annotated[int, Meta(description="Its number in the repository.", ge=1)]
    title: Annotated[str, doc("Its title.")]
    url: Annotated[Url, doc("Its page, on its platform or here.")]
    state: Annotated[str, known_values("Its state, as last reported by its platform.", _STATES)]
    draft: Annotated[bool, doc("Whether it is a draft.")]
    base_branch: Annotated[str, doc("The branch that it is merged into.")]
    head_branch: Annotated[str, doc("The branch with its commits.")]
    head_commit: Annotated[str, doc("The last commit of the head branch, as last reported.")]
    merge_commit: Annotated[
        str | None,
        doc("The commit that merged it, if this service hosts the repository; null otherwise."),
    ]
    job_id: Annotated[str | None, doc("The job that opened it.")]
    created_at: Annotated[Timestamp, doc("When it was opened.")]
    merged_at: Annotated[Timestamp | None, doc("When it was merged.")]
    closed_at: Annotated[Timestamp | None, doc("When it was closed without being merged.")]


class PullList(msgspec.Struct, frozen=True):
    pulls: Annotated[list[PullView], doc("A page of pull requests, newest first.")]
    next_cursor: NextCursor


class MergePullRequest(msgspec.Struct, frozen=True):
    method: Annotated[
        MergeMethod,
        doc(
            "`merge` creates a merge commit (on GitLab, what the project prescribes), `squash` one "
            "commit with all changes, `rebase` a copy of each commit on top of the base branch. "
            "GitLab cannot rebase."
        ),
    ] = "merge"
    head_commit: Annotated[
        Annotated[
            str,
            text(matching=Rule("^[0-9a-f]{40}([0-9a-f]{24})?$", "must be a full commit id")),
        ]
        | None,
        doc("Merge only if this is still the head: what you have reviewed."),
    ] = None


async def list_all(call: Call) -> Response:
    query = read_query(call.scope, PullQuery, _CURSORS.faults)
    db, organization = call.context.db, call.caller.organization
    full_name = None
    if query.repo is not None:
        full_name = (await get_repo(db, call.caller.organization_id, query.repo)).full_name
    if query.job_id is not None:
        pull = await pull_of_job(db, organization, query.job_id)
        listed = [pull] if pull and _matches(pull, query.state, full_name) else []
        return Reply(200, PullList([_view(call, entry) for entry in listed], None))
    pulls = await list_pulls(
        db,
        organization,
        full_name,
        state=query.state,
        # One more than requested shows whether there is a next page.
        limit=query.limit + 1,
        before=_decode(_CURSORS.decode(query.cursor)),
    )
    pulls, next_cursor = _CURSORS.cut(pulls, query.limit, _position)
    return Reply(200, PullList([_view(call, pull) for pull in pulls], next_cursor))


async def show(call: Call) -> Response:
    return Reply(200, _view(call, await _pull(call)))


async def merge(call: Call) -> Response:
    body = await read_optional_object(call.scope, call.receive)
    if faults := find_faults(body, MergePullRequest):
        raise validation_failed(faults)
    request = MergePullRequest(**select_fields(body, MergePullRequest))
    pull = await _pull(call)
    with audit.acting_as(call.actor):
        merged = await _merge(call.context, pull, request)
    return Reply(200, _view(call, merged))


async def close(call: Call) -> Response:
    pull = await _pull(call)
    with audit.acting_as(call.actor):
        closed = await _close(call.context, pull)
    return Reply(200, _view(call, closed))


async def _merge(context: WebContext, pull: Pull, request: MergePullRequest) -> Pull:
    if pull.url is not None:
        return await merge_platform_pull(
            context.db,
            context.platforms,
            pull,
            method=request.method,
            head_commit=request.head_commit,
        )
    return await merge_pull(
        context.db,
        context.settings,
        pull.organization,
        pull.repo,
        pull.number,
        method=request.method,
        head_commit=request.head_commit,
    )


async def _close(context: WebContext, pull: Pull) -> Pull:
    if pull.url is not None:
        return await close_platform_pull(context.db, context.platforms, pull)
    return await close_and_remove_branch(
        context.db, context.settings, pull.organization, pull.repo, pull.number
    )


def _matches(pull: Pull, state: str | None, full_name: str | None) -> bool:
    return state in (None, pull.state) and full_name in (None, pull.repo)


async def _pull(call: Call) -> Pull:
    return await get_pull_by_id(call.context.db, call.caller.organization, call.path["pull_id"])


def _position(pull: Pull) -> str:
    created_at, repo, number = pull.cursor
    return f"{created_at}:{number}:{repo}"


def _decode(position: str | None) -> PullCursor | None:
    if position is None or (match := _is_position(position)) is None:
        return None
    return int(match[1]), match[3], int(match[2])


def _view(call: Call, pull: Pull) -> PullView:
    return copy_fields(
        pull,
        PullView,
        url=pull.url or call.context.settings.effective_public_url + pull.path,
        created_at=iso_utc(pull.created_at),
        merged_at=iso_utc_or_none(pull.merged_at),
        closed_at=iso_utc_or_none(pull.closed_at),
    )
