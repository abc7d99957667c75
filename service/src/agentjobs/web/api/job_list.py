"""`GET /jobs`: the filters and the page."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.model import JobView, LabelKey, LabelValue
from agentjobs.jobs.states import STATUSES, JobStatus
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.queries import list_jobs
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.pagination import Cursor, Cursors, FilterText, NextCursor
from agentjobs.web.api.query import read_query
from agentjobs.web.api.times import TimeText, parse_time, time_faults
from agentjobs_runtime.identifiers import id_matcher
from agentjobs_runtime.json_fields import doc
from agentjobs_runtime.problems import Fault

MAX_LABEL_FILTERS = 8
_CURSORS = Cursors("jobs", id_matcher("job"))


class JobListQuery(msgspec.Struct, frozen=True):
    status: Annotated[
        list[JobStatus],
        Meta(
            description="Only jobs in one of these statuses; repeated, or separated by commas.",
            max_length=len(STATUSES),
        ),
    ] = []
    repo: Annotated[FilterText | None, doc("Only jobs of the repository with this full name.")] = (
        None
    )
    agent: Annotated[FilterText | None, doc("Only jobs of the agent with this id.")] = None
    ticket_id: Annotated[FilterText | None, doc("Only jobs for this ticket.")] = None
    follows: Annotated[FilterText | None, doc("Only follow-ups of the job with this id.")] = None
    label: Annotated[
        dict[LabelKey, LabelValue],
        Meta(
            description="`label.KEY=VALUE`: only jobs that have this label; with several, all.",
            max_length=MAX_LABEL_FILTERS,
        ),
    ] = {}
    created_after: Annotated[
        TimeText | None,
        doc("Only jobs created at this time or later: RFC 3339, or a date (midnight UTC)."),
    ] = None
    created_before: Annotated[
        TimeText | None, doc("Only jobs created before this time: RFC 3339, or a date.")
    ] = None
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=100)] = 20
    cursor: Cursor = None

    @property
    def filter(self) -> JobFilter:
        return JobFilter(
            repo=self.repo,
            agent=self.agent,
            ticket=self.ticket_id,
            follows=self.follows,
            labels=self.label,
            since=_milliseconds(self.created_after),
            until=_milliseconds(self.created_before),
        )


class JobList(msgspec.Struct, frozen=True):
    jobs: Annotated[
        list[JobView],
        doc(
            "A page of jobs, newest first. A search through many jobs may return fewer than"
            " `limit`, even none, before the last page."
        ),
    ]
    next_cursor: NextCursor


async def list_all(call: Call) -> Response:
    query = read_query(call.scope, JobListQuery, _faults)
    page = await list_jobs(
        call.context.jobs,
        call.caller.organization_id,
        query.filter,
        statuses=query.status,
        limit=query.limit,
        before=_CURSORS.decode(query.cursor),
    )
    cursor = None if page.next_before is None else _CURSORS.encode(page.next_before)
    return Reply(200, JobList(page.jobs, cursor))


def _faults(query: Mapping[str, Any]) -> list[Fault]:
    return [*_CURSORS.faults(query), *time_faults(query, "created_after", "created_before")]


def _milliseconds(time: str | None) -> int | None:
    return None if time is None else parse_time(time)
