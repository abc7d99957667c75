"""/jobs/{id}: one job, live: what was asked, what happened, what came of it."""

from typing import Any

import msgspec
from starlette.responses import Response

from agentjobs.jobs.cancel import cancel_job
from agentjobs.jobs.follow_up import active_job_on
from agentjobs.jobs.model import JobView
from agentjobs.jobs.states import COMPLETED, FINAL
from agentjobs.jobs.views.detail_queries import JobFacts, event_deliveries, job_facts
from agentjobs.jobs.views.queries import get_job
from agentjobs.problems import Problem
from agentjobs.web.dashboard.jobs.changes import ends_of
from agentjobs.web.dashboard.jobs.log import log_tail
from agentjobs.web.dashboard.jobs.lookup import job_id_of
from agentjobs.web.dashboard.live import Parts, live_parts, on_page
from agentjobs.web.dashboard.page_route import OpenPlace, Place
from agentjobs.web.dashboard.request_context import Visit
from agentjobs.webhooks.events import happened_in

# Each is a template of its own.
_PARTS = ("head", "facts", "events", "told", "follow_up", "changes")
_QUEUE_REASONS = {
    "plan_limit": "the plan's limit of jobs at once is reached; it starts when another one ends",
    "no_worker": "no worker that is alive can run this agent; see Agents for the reason",
}


async def show(visit: Visit, problem: Problem | None = None, typed: str = "") -> Response:
    """`problem` and `typed`: of a form on this page that was refused."""
    job_id = await job_id_of(visit)
    facts = await _facts(visit, job_id)
    return await visit.page(
        "jobs/detail.html",
        problem=problem,
        **facts,
        parts=on_page(await _parts(visit, facts, typed)),
        # What was typed must not be replaced under the hand.
        live=problem is None and not _is_settled(facts),
        log=await log_tail(visit.db, job_id),
    )


async def stream(visit: Visit) -> Response:
    job_id = await job_id_of(visit)
    state = {"over": False}

    async def parts() -> Parts:
        facts = await _facts(visit, job_id)
        state["over"] = _is_settled(facts)
        return await _parts(visit, facts)

    topics = (f"job:{job_id}", happened_in(visit.organization_id))
    return live_parts(visit, topics, parts, is_over=lambda: state["over"])


async def _parts(visit: Visit, facts: dict[str, Any], typed: str = "") -> Parts:
    return {
        f"job-{name}": await visit.fragment(f"jobs/{name}.html", typed=typed, **facts)
        for name in _PARTS
    }


async def cancel(visit: Visit) -> Response:
    job_id = await job_id_of(visit)
    try:
        await cancel_job(visit.context.jobs, visit.organization_id, job_id)
    except Problem as problem:
        if problem.code != "job_finished":
            raise
        return visit.redirect(f"/jobs/{job_id}", said=problem.message, tone="warn")
    return visit.redirect(f"/jobs/{job_id}", said="The job is being cancelled.")


async def _facts(visit: Visit, job_id: str) -> dict[str, Any]:
    job = await get_job(visit.context.jobs, visit.organization_id, job_id)
    facts = await job_facts(visit.context.jobs, visit.organization_id, job_id)
    override = msgspec.json.encode(facts.config_override)
    return {
        "job": job,
        "facts": facts,
        "events": await event_deliveries(visit.db, visit.organization_id, job_id),
        "is_final": job.status in FINAL,
        "why_no_follow_up": await _why_no_follow_up(visit, job, facts),
        "settings_json": msgspec.json.format(override, indent=2).decode(),
        "queue_reason": _QUEUE_REASONS.get(job.queue_reason or "", ""),
        "asked": _asked(job, facts),
        "has_diff": ends_of(facts) is not None,
    }


async def _why_no_follow_up(visit: Visit, job: JobView, facts: JobFacts) -> str | None:
    """None: it can be had. Empty: nobody would ask for one."""
    if job.status != COMPLETED or job.pr_state is None or facts.repo_now is None:
        return ""
    if job.pr_state != "open":
        return f"The pull request is {job.pr_state}, so no job can go on with it."
    other = await active_job_on(visit.db, visit.organization_id, facts.repo_id, facts.branch)
    return None if other is None else "A job is at work on this pull request already."


def _is_settled(facts: dict[str, Any]) -> bool:
    """Nothing on the page will change again: deliveries go on a while after the job's end."""
    deliveries = (each for line in facts["events"] for each in line.deliveries)
    return facts["is_final"] and all(each.status != "pending" for each in deliveries)


def _asked(job: JobView, facts: JobFacts) -> str:
    """What this job is about, in one line."""
    override = facts.config_override
    text = override.get("title") or override.get("prompt")
    if isinstance(text, str) and text.strip():
        return text.strip().splitlines()[0][:200]
    if job.cause is not None:
        return f"{job.cause.package} to {job.cause.fix_version} in {job.repo}"
    return f"{job.agent} on {job.repo}"


PLACES: list[Place | OpenPlace] = [
    Place("GET", "/jobs/{job_id}", "viewer", show),
    Place("GET", "/jobs/{job_id}/stream", "viewer", stream),
    Place("POST", "/jobs/{job_id}/cancel", "member", cancel),
]
