"""/jobs/{id}: a job with its prompt, events, changes and log, updated live."""

from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from agentjobs.jobs.model import JobView
from agentjobs.jobs.operations.cancel import cancel_job
from agentjobs.jobs.operations.follow_up import active_job_on
from agentjobs.jobs.results.artifacts import list_artifacts
from agentjobs.jobs.states import COMPLETED, FINAL
from agentjobs.jobs.views.detail_queries import JobDetails, load_details
from agentjobs.jobs.views.queries import get_job, list_events
from agentjobs.jobs.views.titles import agent_on_repo, choose_title
from agentjobs.web.dashboard.jobs.changes import find_commit_range
from agentjobs.web.dashboard.jobs.form_errors import LABELS, for_page
from agentjobs.web.dashboard.jobs.log import log_tail
from agentjobs.web.dashboard.jobs.lookup import require_job_id
from agentjobs.web.dashboard.jobs.phase_bars import run_bars
from agentjobs.web.dashboard.jobs.reasons import error_text, find_failed_build, queue_reason_text
from agentjobs.web.dashboard.jobs.steps import load_page, step_parts
from agentjobs.web.dashboard.live import live_page
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.markdown import render_present
from agentjobs.webhooks.events import activity_topic
from agentjobs.webhooks.log import DeliveryFilter, list_deliveries
from agentjobs_runtime.agents.artifacts import IMAGES
from agentjobs_runtime.clock import now_ms
from agentjobs_runtime.identifiers import creation_time_ms
from agentjobs_runtime.problems import Problem

_MAX_DELIVERIES = 1_000
_LABELS = {**LABELS, "prompt": "What should the agent do next?"}
# The views of what the agent did, each with its own template; the first is the default.
_VIEWS = {"log": "Log", "steps": "Steps"}
# Each part has its own template.
_PARTS = (
    "jobs/head",
    "jobs/phases",
    "jobs/report",
    "jobs/details",
    "jobs/events",
    "jobs/prompt",
    "jobs/follow_up",
    "jobs/artifacts",
    "jobs/changes",
)


class Report(msgspec.Struct, frozen=True):
    html: Markup
    json: str = ""


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    job_id = await require_job_id(request)
    values = await _load_values(request, job_id)
    request.topics = (f"job:{job_id}", activity_topic(request.organization_id))
    request.is_settled = _is_settled(values)
    # The log and the steps have streams of their own.
    view = {} if request.parts else await _view_values(request, values["job"])
    return await request.render(
        "jobs/detail.html",
        problem=problem and for_page(problem, _LABELS),
        **values,
        # What was entered before.
        prompt=request.form.raw("prompt"),
        # A live update must not replace what the user typed.
        live=problem is None and not request.is_settled,
        views=_VIEWS,
        **view,
    )


async def _view_values(request: PageRequest, job: JobView) -> dict[str, Any]:
    view = _view(request)
    if view == "log":
        return {"view": view, "log": await log_tail(request.db, job.job_id, request.zone)}
    page = await load_page(request, job.job_id)
    parts = await step_parts(request, job.job_id, page, job.status)
    return {"view": view, "steps": page, "step_parts": parts}


def _view(request: PageRequest) -> str:
    view = request.query_param("view")
    return view if view in _VIEWS else next(iter(_VIEWS))


async def cancel(request: PageRequest) -> Response:
    job_id = await require_job_id(request)
    try:
        await cancel_job(request.db, request.organization_id, job_id)
    except Problem as problem:
        if problem.code != "job_finished":
            raise
        return request.redirect(f"/jobs/{job_id}", banner=problem.message, tone="warn")
    return request.redirect(f"/jobs/{job_id}", banner="The job is being cancelled.")


async def _load_values(request: PageRequest, job_id: str) -> dict[str, Any]:
    job = await get_job(request.context.jobs, request.organization_id, job_id)
    details = await load_details(request.context.jobs, request.organization_id, job_id)
    override = details.config_override
    title = choose_title(override.get("title"), override.get("prompt"), job.ticket, job.cause)
    failure = job.error and error_text(job.error.code, is_retryable=job.error.retryable)
    pull_body = None if details.pull is None else details.pull.body
    request_text = _request_beyond(title, override.get("prompt"))
    report, request_html, prompt_html, pull_html = await render_present(
        [job.report_markdown, request_text, details.prompt, pull_body]
    )
    return {
        "job": job,
        "now": now_ms(),
        "details": details,
        "events": await _load_events(request, job_id),
        "is_final": job.status in FINAL,
        "no_follow_up_reason": await _no_follow_up_reason(request, job, details),
        "settings_json": msgspec.json.format(msgspec.json.encode(override)).decode(),
        "failed_build": find_failed_build(job.error),
        "queue_reason": queue_reason_text(job.queue_reason),
        "title": title,
        "summary": title or agent_on_repo(job.agent, job.repo),
        "runs": run_bars(job.phases, job.status),
        "failure": failure,
        "has_diff": details.has_diff or find_commit_range(details) is not None,
        "report": _report(job, report),
        "request_html": request_html,
        "prompt_html": prompt_html,
        "pull_html": pull_html,
        "artifacts": await list_artifacts(request.db, request.organization_id, job_id),
        "image_types": IMAGES,
    }


async def _load_events(request: PageRequest, job_id: str) -> list[dict[str, Any]]:
    """The events of the job in order, with their deliveries."""
    events = await list_events(request.db, request.organization_id, job_id)
    of_job = DeliveryFilter(job_id=job_id)
    page = await list_deliveries(request.db, request.organization_id, of_job, limit=_MAX_DELIVERIES)
    return [
        {
            "event": event.event,
            "created_at": creation_time_ms(event.id),
            "deliveries": [
                delivery
                for delivery in reversed(page.deliveries)
                if delivery.sequence == event.sequence
            ],
        }
        for event in events
    ]


def _report(job: JobView, html: Markup | None) -> Report | None:
    if job.report_markdown is None:
        return None
    if job.report_json is None:
        return Report(html or Markup())
    json = msgspec.json.format(msgspec.json.encode(job.report_json)).decode()
    return Report(html or Markup(), json)


def _request_beyond(title: str | None, prompt: object) -> str | None:
    """The requested prompt, unless the title says it all."""
    return prompt if isinstance(prompt, str) and prompt.strip() != title else None


async def _no_follow_up_reason(
    request: PageRequest, job: JobView, details: JobDetails
) -> str | None:
    """None if a follow-up is possible; empty if the form should not be shown at all."""
    if job.status != COMPLETED or job.pr_state is None or details.current_repo is None:
        return ""
    if job.pr_state != "open":
        return f"The pull request is {job.pr_state}, so you cannot start a follow-up."
    other = await active_job_on(
        request.db, request.organization_id, details.repo_id, details.branch
    )
    return None if other is None else "Another job is already running on this pull request."


def _is_settled(values: dict[str, Any]) -> bool:
    """Whether nothing will change again. Deliveries continue after the job has finished."""
    deliveries = (delivery for line in values["events"] for delivery in line["deliveries"])
    return values["is_final"] and all(delivery.status != "pending" for delivery in deliveries)


ROUTES: Routes = [
    *live_page("/jobs/{job_id}", "viewer", show, *_PARTS),
    PageRoute("POST", "/jobs/{job_id}/cancel", "member", cancel),
]
