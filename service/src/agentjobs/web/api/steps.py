"""What a job's agent did, step by step."""

import re
from typing import Annotated, get_args

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.jobs.lookup import ensure_job
from agentjobs.jobs.steps.rows import read_steps
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.jobs import parse_job_id
from agentjobs.web.api.pagination import Cursor, Cursors, NextCursor
from agentjobs.web.api.query import read_query
from agentjobs_runtime.agents.steps import StepKind, StepState, StoredStep
from agentjobs_runtime.clock import iso_utc
from agentjobs_runtime.json_fields import Count, Timestamp, copy_fields, doc, known_values
from agentjobs_runtime.money import NANOUSD_PER_USD

_CURSORS = Cursors("steps", re.compile("[1-9][0-9]{0,14}").fullmatch)


class StepQuery(msgspec.Struct, frozen=True):
    kind: Annotated[StepKind | None, doc("Only steps of this kind.")] = None
    after: Annotated[
        int, Meta(description="Only steps with a higher `sequence`.", ge=0, le=2**31 - 1)
    ] = 0
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=200)] = 100
    cursor: Cursor = None


class StepView(msgspec.Struct, frozen=True):
    sequence: Annotated[Count, doc("The position of the step in its run; the first is 1.")]
    kind: Annotated[
        str,
        known_values(
            "`read` and `change` are about a file, `message` is a text of the agent, `model` a"
            " model call, and `other` another tool of the agent.",
            get_args(StepKind),
        ),
    ]
    title: Annotated[str, doc("The file, the command, the model or the first line of a message.")]
    detail: Annotated[
        str,
        doc(
            "The output of a command, what was changed in a file, the whole message, or the tokens"
            " of a call; empty if nothing is known. At most 4,000 characters."
        ),
    ]
    state: Annotated[
        str,
        known_values(
            "`unfinished` if the agent ended first; a step that is `running` changes later.",
            get_args(StepState),
        ),
    ]
    exit_code: Annotated[int | None, doc("The exit code of a command, if the agent reported it.")]
    started_at: Annotated[Timestamp, doc("When the step began.")]
    duration_ms: Annotated[Count | None, doc("How long it took; null if that is not known.")]
    cost_usd: Annotated[
        float | None, doc("The cost of a model call; null for others, or without a price.")
    ]


class StepList(msgspec.Struct, frozen=True):
    steps: Annotated[list[StepView], doc("A page of steps, in their order.")]
    next_cursor: NextCursor


async def list_all(call: Call) -> Response:
    job_id, db = parse_job_id(call), call.context.db
    query = read_query(call.scope, StepQuery, _CURSORS.faults)
    await ensure_job(db, call.caller.organization_id, job_id)
    steps = await read_steps(
        *(db, job_id),
        kind=query.kind,
        after=max(query.after, int(_CURSORS.decode(query.cursor) or 0)),
        # One more than requested shows whether there is a next page.
        limit=query.limit + 1,
    )
    steps, next_cursor = _CURSORS.cut(steps, query.limit, lambda step: str(step.sequence))
    return Reply(200, StepList([_view(step) for step in steps], next_cursor))


def _view(step: StoredStep) -> StepView:
    cost = step.cost_nanousd
    return copy_fields(
        step,
        StepView,
        started_at=iso_utc(step.started_at),
        cost_usd=None if cost is None else cost / NANOUSD_PER_USD,
    )
