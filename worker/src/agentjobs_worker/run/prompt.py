"""Writes the job file and the prompt of an agent, and prepares its sandbox task."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentjobs_runtime.agents.prompt import JobDetails, PreviousPull, TicketText
from agentjobs_worker.agents.invocation import prepare_run
from agentjobs_worker.link.commits import CommitSummary
from agentjobs_worker.link.publishing import FoundTicket
from agentjobs_worker.run.context import AGENT_STEP, RunContext
from agentjobs_worker.run.plan import RunPlan
from agentjobs_worker.run.spare_sandboxes import run_dir_in
from agentjobs_worker.sandbox.protocol import SandboxTask
from agentjobs_worker.workspace.checkout import Checkout


def prepare_task(
    run: RunContext,
    plan: RunPlan,
    checkout: Checkout,
    summary: CommitSummary,
    ticket: FoundTicket | None,
    previous: PreviousPull | None,
    fix_entries: Mapping[str, Any],
) -> SandboxTask:
    """`fix_entries` are for the agent `cve-fixer` only."""
    job, agent = run.job, plan.agent
    details = JobDetails(
        job_id=job.id,
        repo=job.repo,
        agent=agent.id,
        agent_name=agent.name,
        base_branch=job.base_branch,
        base_commit=checkout.commit,
        attempt=job.attempt + 1,
        ticket_id=job.ticket_id,
        ticket=_ticket_text(ticket),
        config_override=job.config_override,
        languages=summary.languages,
        guidance_files=summary.guidance,
        test_command=summary.test_command,
        verify_command=" && ".join(shlex.join(check.command) for check in plan.checks) or None,
        pull=previous,
        is_report=agent.result == "report",
        result_schema=agent.result_schema,
        fix_entries=fix_entries,
    )
    return prepare_run(
        agent,
        details,
        workspace=checkout.tree,
        run_dir=locate_run_dir(checkout),
        owner_uid=run.tools.sandbox.owner_uid(run.slot),
        timeout_seconds=plan.timeout_seconds,
        slot=run.slot,
        owner=run.owner(AGENT_STEP),
        on_note=run.log.note,
        image=run.tools.pod_programs,
    )


def locate_run_dir(checkout: Checkout) -> Path:
    return run_dir_in(checkout.tree.parent)


def _ticket_text(match: FoundTicket | None) -> TicketText | None:
    if match is None:
        return None
    ticket = match.ticket
    return TicketText(ticket.title, ticket.text, ticket.labels, ticket.url)
