"""The vulnerability endpoints: listing what scans found, dismissing, snoozing and reopening it."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from agentjobs.advisories.decisions import (
    MAX_NOTE_LENGTH,
    NewDecision,
    Reason,
    decide,
    reopen,
)
from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.advisories.findings import FindingView, list_findings
from agentjobs.advisories.packages import find_finding
from agentjobs.advisories.vulnerability_view import (
    ID_PATTERN,
    VulnerabilityView,
    vulnerability_view,
)
from agentjobs.organizations import audit
from agentjobs.repos.queries import get_repo
from agentjobs.web.api.endpoint import Call, Reply
from agentjobs.web.api.errors import validation_failed
from agentjobs.web.api.pagination import Cursor, Cursors, FilterText, NextCursor
from agentjobs.web.api.query import read_query
from agentjobs.web.api.requests import read_optional_object
from agentjobs.web.api.times import TimeText, parse_time, time_faults
from agentjobs_dependencies.advisories.severity import Level
from agentjobs_runtime.json_fields import NULL_CHARACTERS, doc, find_faults, select_fields, text
from agentjobs_runtime.problems import Problem

_CURSORS = Cursors("vulnerabilities", re.compile("[0-9]{4}fnd_[0-9a-z]{26}").fullmatch)
_is_id = re.compile(ID_PATTERN).fullmatch


class VulnerabilityQuery(msgspec.Struct, frozen=True):
    repo: Annotated[
        FilterText | None,
        doc("Only those of the repository with this identifier or full name."),
    ] = None
    severity: Annotated[Level | None, doc("Only those of this severity.")] = None
    dismissed: Annotated[
        bool | None,
        doc("With `true` only what is dismissed or snoozed, with `false` only the others."),
    ] = None
    fixture: Annotated[
        bool | None,
        doc("With `true` only packages of tests and examples, with `false` only the others."),
    ] = None
    search: Annotated[
        FilterText | None,
        doc("Only those whose package, advisories or repository contain this text."),
    ] = None
    limit: Annotated[int, Meta(description="At most this many.", ge=1, le=100)] = 20
    cursor: Cursor = None


class VulnerabilityList(msgspec.Struct, frozen=True):
    vulnerabilities: Annotated[
        list[VulnerabilityView], doc("A page of vulnerabilities, the most severe first.")
    ]
    next_cursor: NextCursor


class DismissRequest(msgspec.Struct, frozen=True):
    reason: Annotated[Reason, doc("Why it need not be fixed, or not now.")]
    note: Annotated[
        Annotated[str, text(max_length=MAX_NOTE_LENGTH, without=NULL_CHARACTERS)],
        doc("The same in words."),
    ] = ""
    until: Annotated[
        TimeText | None, doc("Snooze it until this time; without one, it stays dismissed.")
    ] = None


async def list_all(call: Call) -> Response:
    query = read_query(call.scope, VulnerabilityQuery, _CURSORS.faults)
    db, owner = call.context.db, call.caller.organization_id
    finding_filter = FindingFilter(
        repo_id=None if query.repo is None else (await get_repo(db, owner, query.repo)).id,
        severity=query.severity,
        search=query.search,
        fixture=query.fixture,
        decided=query.dismissed,
    )
    findings = await list_findings(
        # One more than requested shows whether there is a next page.
        *(db, owner, finding_filter),
        limit=query.limit + 1,
        after=_CURSORS.decode(query.cursor),
    )
    findings, next_cursor = _CURSORS.cut(findings, query.limit, lambda finding: finding.cursor)
    return Reply(
        200, VulnerabilityList([vulnerability_view(finding) for finding in findings], next_cursor)
    )


async def dismiss(call: Call) -> Response:
    body = await read_optional_object(call.scope, call.receive)
    if faults := [*find_faults(body, DismissRequest), *time_faults(body, "until")]:
        raise validation_failed(faults)
    request = DismissRequest(**select_fields(body, DismissRequest))
    finding = await _finding(call)
    decision = NewDecision(
        reason=request.reason,
        note=request.note,
        until=None if request.until is None else parse_time(request.until),
    )
    with audit.acting_as(call.actor):
        await decide(
            call.context.db,
            finding.find_package(call.caller.organization_id),
            {finding.advisory_id},
            decision,
        )
    return Reply(200, vulnerability_view(await _finding(call)))


async def reopen_one(call: Call) -> Response:
    finding = await _finding(call)
    package = finding.find_package(call.caller.organization_id)
    with audit.acting_as(call.actor):
        await reopen(call.context.db, package, {finding.advisory_id})
    return Reply(200, vulnerability_view(await _finding(call)))


async def _finding(call: Call) -> FindingView:
    finding_id = call.path["vulnerability_id"]
    if not _is_id(finding_id):
        raise Problem("vulnerability_not_found", "There is no such vulnerability.")
    return await find_finding(call.context.db, call.caller.organization_id, finding_id)
