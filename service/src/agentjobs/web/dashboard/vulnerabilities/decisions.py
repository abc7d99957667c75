"""/vulnerabilities/packages/{finding_id}/dismiss: dismissing and snoozing, and reopening."""

from collections.abc import Sequence

from starlette.responses import Response

from agentjobs.advisories.decisions import (
    MAX_NOTE_LENGTH,
    REASONS,
    NewDecision,
    decide,
    reopen,
)
from agentjobs.advisories.findings import FindingView
from agentjobs.advisories.packages import findings_of_package
from agentjobs.web.dashboard.date_fields import between_days
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.actions import form_page
from agentjobs.web.dashboard.vulnerabilities.query import PATH
from agentjobs_runtime.clock import DAY_MS, now_ms
from agentjobs_runtime.problems import Problem

# A form has at most 200 fields; above this, all advisories of a package are dismissed together.
_MAX_CHOICES = 100
_DATE = "date"
_PERIODS = {
    "": "until somebody reopens it",
    "7": "for 7 days",
    "30": "for 30 days",
    "90": "for 90 days",
    _DATE: "until the end of a day",
}
_FIELDS = ("reason", "period", "date", "note", "back", "advisory")


async def show(request: PageRequest) -> Response:
    values = {name: request.query_param(name)[:2_000] for name in _FIELDS}
    only = values["advisory"]
    findings = await _findings(request)
    is_chosen = any(finding.advisory_id == only for finding in findings)
    return await _page(request, findings, values, chosen={only} if is_chosen else None)


async def dismiss(request: PageRequest) -> Response:
    findings = await _findings(request)
    form = request.form
    known = {finding.advisory_id for finding in findings}
    chosen = known & set(form.all("chosen")) if len(known) <= _MAX_CHOICES else known
    try:
        if not chosen:
            raise Problem("bad_request", "Select the advisories to dismiss.")
        decision = NewDecision(
            reason=form.text("reason"), note=form.text("note"), until=_until(request)
        )
        package = findings[0].find_package(request.organization_id)
        await decide(request.db, package, chosen, decision)
    except Problem as problem:
        values = {name: form.raw(name) for name in _FIELDS}
        # Not the details, which name the fields of the API.
        shown = Problem(problem.code, problem.message[:1].upper() + problem.message[1:])
        return await _page(request, findings, values, chosen=chosen, problem=shown)
    verb = "Dismissed" if decision.until is None else "Snoozed"
    banner = f"{verb} {findings[0].name} in {findings[0].repo}."
    return request.redirect(_page_before(request), banner=banner)


async def reopen_package(request: PageRequest) -> Response:
    """All decisions about the package, or about one advisory on its page."""
    findings = await _findings(request)
    only = request.form.text("advisory")
    decided = {
        finding.advisory_id
        for finding in findings
        if finding.decision is not None and only in ("", finding.advisory_id)
    }
    if not decided:
        return request.redirect(_page_before(request), banner="It is already open.", tone="warn")
    await reopen(request.db, findings[0].find_package(request.organization_id), decided)
    banner = f"Reopened {findings[0].name} in {findings[0].repo}."
    return request.redirect(_page_before(request), banner=banner)


def _page_before(request: PageRequest) -> str:
    return form_page(request.form.text("advisory"), request.form.text("back"))


async def _findings(request: PageRequest) -> list[FindingView]:
    return await findings_of_package(
        request.db, request.organization_id, request.path_param("finding_id")
    )


def _until(request: PageRequest) -> int | None:
    period = request.form.text("period")
    if not period:
        return None
    if period == _DATE:
        _, until = between_days("", request.form.text("date"), request.zone)
        if until is None:
            raise Problem("bad_request", "Enter the date until which it is snoozed.")
        return until
    if period not in _PERIODS:
        raise Problem("bad_request", "Choose how long, and submit the form again.")
    return now_ms() + int(period) * DAY_MS


async def _page(
    request: PageRequest,
    findings: Sequence[FindingView],
    values: dict[str, str],
    *,
    chosen: set[str] | None,
    problem: Problem | None = None,
) -> Response:
    """All open advisories are chosen, if None."""
    advisories = list({finding.advisory_id: finding for finding in findings[::-1]}.values())[::-1]
    if chosen is None:
        chosen = {advisory.advisory_id for advisory in advisories if advisory.decision is None}
    return await request.render(
        "vulnerabilities/dismiss.html",
        problem=problem,
        finding_id=request.path_param("finding_id"),
        package=findings[0],
        advisories=advisories if len(advisories) <= _MAX_CHOICES else [],
        advisory_count=len(advisories),
        chosen=chosen or {advisory.advisory_id for advisory in advisories},
        values=values,
        reason_options=[(name, name.replace("_", " ").capitalize()) for name in REASONS],
        period_options=[(value, label.capitalize()) for value, label in _PERIODS.items()],
        cancel=form_page(values["advisory"], values["back"]),
        max_note=MAX_NOTE_LENGTH,
    )


ROUTES: Routes = [
    PageRoute("GET", f"{PATH}/packages/{{finding_id}}/dismiss", "member", show),
    PageRoute("POST", f"{PATH}/packages/{{finding_id}}/dismiss", "member", dismiss),
    PageRoute("POST", f"{PATH}/packages/{{finding_id}}/reopen", "member", reopen_package),
]
