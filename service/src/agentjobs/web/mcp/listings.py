"""The tools that list agents, repositories and jobs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from mcp_types import CallToolResult
from pydantic import Field

from agentjobs.web.mcp.arguments import ABSENT, Cursor, Status
from agentjobs.web.mcp.protocol import tool_result
from agentjobs.web.mcp.tool_client import current_client
from agentjobs_client import Agent, Job, Repo, calls
from agentjobs_client.call import Call, Page, page_reader

# A model needs no more to choose one.
_REPO_FIELDS = (
    *("id", "full_name", "platform", "default_branch", "index_status", "index_error"),
    "line_count",
)
_JOB_FIELDS = (
    *("job_id", "status", "repo", "agent", "ticket_id", "labels", "created_at", "completed_at"),
    *("pr_url", "pr_state", "error", "queue_reason", "follows"),
)


async def list_agents() -> CallToolResult:
    """List the agent types that jobs can use: what each does, whether its jobs end with a pull
    request or a report, and whether the organization's plan allows it."""
    agents = await current_client.get().agents()
    lines = [f"- {_describe_agent(agent)}" for agent in agents]
    content = {"agents": [agent.raw for agent in agents]}
    return tool_result(content, "\n".join(lines) or "No agents are enabled.")


async def list_repos(
    limit: Annotated[int, Field(description="At most this many.", ge=1, le=200)] = 50,
    cursor: Cursor = ABSENT,
) -> CallToolResult:
    """List the connected repositories. Only those whose index_status is `ready` accept jobs."""
    page = await current_client.get().page(_repo_page, limit, cursor)
    lines = [f"- {repo.full_name} ({repo.platform}, {repo.index_status})" for repo in page.items]
    repos = [_select(repo.raw, _REPO_FIELDS) for repo in page.items]
    return _page_result("repos", repos, page, lines)


async def list_jobs(
    status: Annotated[
        list[Status], Field(description="Only jobs in one of these statuses.")
    ] = ABSENT,
    repo: Annotated[
        str, Field(description="Only jobs of the repository with this full name.")
    ] = ABSENT,
    agent: Annotated[str, Field(description="Only jobs of the agent with this id.")] = ABSENT,
    ticket_id: Annotated[str, Field(description="Only jobs for this ticket.")] = ABSENT,
    labels: Annotated[
        dict[str, str], Field(description="Only jobs with all of these labels.")
    ] = ABSENT,
    limit: Annotated[int, Field(description="At most this many.", ge=1, le=50)] = 10,
    cursor: Cursor = ABSENT,
) -> CallToolResult:
    """List jobs, newest first, in short form; get_job has everything about one."""
    filters = calls.JobFilters(
        status=status or None, repo=repo, agent=agent, ticket_id=ticket_id, labels=labels
    )
    page = await current_client.get().page(calls.list_jobs(filters), limit, cursor)
    lines = [f"- {describe_briefly(job)}" for job in page.items]
    return _page_result("jobs", [summarize(job) for job in page.items], page, lines)


async def recent_jobs(limit: int) -> list[Job]:
    page = await current_client.get().page(calls.list_jobs({}), limit, None)
    return page.items


def summarize(job: Job) -> dict[str, Any]:
    return _select(job.raw, _JOB_FIELDS)


def describe_briefly(job: Job) -> str:
    text = f"{job.job_id}: {job.status}, {job.agent} on {job.repo}"
    return f"{text}, {job.pr_url}" if job.pr_url else text


def warning_lines(warnings: Sequence[str]) -> list[str]:
    """What the API ignored."""
    return [f"Warning: {warning}" for warning in warnings]


def cursor_lines(cursor: str | None) -> list[str]:
    return [] if cursor is None else [f"There are more: call again with the cursor {cursor}"]


def _repo_page(cursor: str | None) -> Call[Page[Repo]]:
    params = {} if cursor is None else {"cursor": cursor}
    return Call("GET", "/repos", page_reader(Repo, "repos"), params)


def _select(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if fields.get(name) not in (None, {}, [])}


def _describe_agent(agent: Agent) -> str:
    text = f"{agent.id}: {agent.description or agent.name}"
    notes = []
    if agent.result == "report":
        notes.append("writes a report instead of a pull request")
    if not agent.available:
        notes.append(f"not available: needs the plan {agent.plan_required}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _page_result(name: str, items: list[Any], page: Page[Any], lines: list[str]) -> CallToolResult:
    content = {name: items, "next_cursor": page.next_cursor, "warnings": page.warnings}
    lines = lines or [f"No {name} found."]
    more = (*cursor_lines(page.next_cursor), *warning_lines(page.warnings))
    return tool_result(content, "\n".join((*lines, *more)))
