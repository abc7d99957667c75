"""/jobs/new: creating jobs; also retrying a job and starting a follow-up."""

from collections.abc import Callable
from typing import Any, get_args

from starlette.responses import Response

from agentjobs.jobs.model import Priority, create_job_request
from agentjobs.jobs.operations.create import create_job
from agentjobs.jobs.operations.follow_up import (
    FollowUpRequest,
    earlier_job,
    follow_up_faults,
    follow_up_job,
)
from agentjobs.jobs.operations.retry import retry_job
from agentjobs.jobs.validation import request_faults
from agentjobs.web.api.errors import validation_failed
from agentjobs.web.api.requests import null_character_faults, parse_object
from agentjobs.web.dashboard.forms import Form
from agentjobs.web.dashboard.jobs.agent_options import agent_options
from agentjobs.web.dashboard.jobs.detail import show as show_job
from agentjobs.web.dashboard.jobs.form_errors import by_field, for_page
from agentjobs.web.dashboard.jobs.lookup import require_job_id
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.repo_choice import load_repo_choice
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Fault, Problem

_FIELDS = (
    *("repo", "agent", "prompt", "ticket_id", "title", "base_branch", "reviewers"),
    *("priority", "timeout_seconds", "max_cost_usd", "labels", "draft", "more"),
)
# Hidden in a disclosure while empty.
_ADVANCED = _FIELDS[_FIELDS.index("title") :]
_DEFAULT_PRIORITY = "normal"


async def create(request: PageRequest) -> Response:
    faults: list[Fault] = []
    body = _build_request(request.form, faults)
    faults += request_faults(body, request.context.catalog)
    if faults:
        raise validation_failed(faults)
    created = await create_job(
        request.context.jobs, request.viewer.caller, create_job_request(body)
    )
    return request.redirect(f"/jobs/{created.receipt.job_id}")


async def retry(request: PageRequest) -> Response:
    job_id = await require_job_id(request)
    created = await retry_job(request.context.jobs, request.viewer.caller, job_id)
    return request.redirect(
        f"/jobs/{created.receipt.job_id}", banner="Started a new job with the same settings."
    )


async def follow_up(request: PageRequest) -> Response:
    jobs, caller, job_id = (
        request.context.jobs,
        request.viewer.caller,
        await require_job_id(request),
    )
    earlier = await earlier_job(request.db, request.organization_id, job_id)
    prompt = request.form.raw("prompt")
    if faults := follow_up_faults({"prompt": prompt}, earlier, request.context.catalog):
        raise validation_failed(faults)
    created = await follow_up_job(jobs, caller, job_id, FollowUpRequest(prompt))
    banner = "Started a follow-up on the same pull request."
    return request.redirect(f"/jobs/{created.receipt.job_id}", banner=banner)


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    read = request.form.raw if problem else request.query_param
    form_values = {name: read(name) for name in _FIELDS}
    shown = problem and for_page(problem)
    fleet = await request.context.jobs.fleet.state()
    agents = agent_options(request)
    allowed = [agent_id for agent_id, _, unavailable in agents if not unavailable]
    runnable = [agent_id for agent_id in allowed if fleet.slots_for(agent_id)]
    return await request.render(
        "jobs/new.html",
        problem=shown,
        form_values={
            **form_values,
            "agent": form_values["agent"] or next(iter(runnable or allowed), ""),
            "priority": form_values["priority"] or _DEFAULT_PRIORITY,
        },
        field_errors=by_field(shown),
        priority_options=[(name, name.capitalize()) for name in get_args(Priority)],
        shows_options=any(form_values[name].strip() for name in _ADVANCED),
        repo_choice=await load_repo_choice(request, form_values["repo"].strip()),
        agent_options=agents,
        without_worker=[agent_id for agent_id, _, _ in agents if not fleet.slots_for(agent_id)],
    )


def _build_request(form: Form, faults: list[Fault]) -> dict[str, Any]:
    """Omits the fields that cannot be read, which become `faults`."""

    def read(name: str, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(form.text(name)) if form.text(name) else None
        except ValueError as error:
            faults.append({"field": name, "message": str(error)})

    override: dict[str, Any] = read("more", _parse_more) or {}
    for name in ("title", "base_branch"):
        if text := form.text(name):
            override[name] = text
    if form.raw("prompt").strip():
        override["prompt"] = form.raw("prompt")
    if reviewers := form.text("reviewers"):
        override["reviewers"] = [part.strip() for part in reviewers.split(",") if part.strip()]
    if (seconds := read("timeout_seconds", _parse_whole_number)) is not None:
        override["timeout_seconds"] = seconds
    if (cost := read("max_cost_usd", _parse_amount)) is not None:
        override["max_cost_usd"] = cost
    if (priority := form.text("priority")) and priority != _DEFAULT_PRIORITY:
        override["priority"] = priority
    if form.flag("draft"):
        override["draft"] = True
    body: dict[str, Any] = {"repo": form.text("repo"), "agent": form.text("agent")}
    if ticket := form.text("ticket_id"):
        body["ticket_id"] = ticket
    if labels := read("labels", _parse_labels):
        body["labels"] = labels
    return {**body, "config_override": override} if override else body


def _parse_whole_number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise ValueError("must be a whole number, like 600")
    return int(text)


def _parse_amount(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be an amount, like 2.50") from None


def _parse_labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, separator, value = line.partition("=")
        if not separator:
            raise ValueError("must be lines such as team=payments")
        if labels.setdefault(key.strip(), value.strip()) != value.strip():
            raise ValueError(f"must not have two values for {key.strip()}")
    return labels


def _parse_more(text: str) -> dict[str, Any]:
    """Agent-specific keys, as JSON."""
    try:
        value = parse_object(text.encode())
    except Problem:
        raise ValueError('must be a JSON object, like {"depth": 2}') from None
    if null_character_faults(value):
        raise ValueError("must not contain null characters")
    return value


ROUTES: Routes = [
    PageRoute("GET", "/jobs/new", "member", show),
    PageRoute("POST", "/jobs", "member", create, problem_page=show),
    PageRoute("POST", "/jobs/{job_id}/again", "member", retry, problem_page=show_job),
    PageRoute("POST", "/jobs/{job_id}/follow-up", "member", follow_up, problem_page=show_job),
]
