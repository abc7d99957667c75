"""The tools that list agents, repositories and jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentjobs.web.mcp.arguments import ListJobs, ListRepos
from agentjobs.web.mcp.rest_api import RestApi, RestRequest, fetch_json
from agentjobs.web.mcp.tool import ToolCall, ToolResult

# A model needs no more to choose one.
_REPO_FIELDS = (
    *("id", "full_name", "platform", "default_branch", "index_status", "index_error"),
    "line_count",
)
_JOB_FIELDS = (
    *("job_id", "status", "repo", "agent", "ticket_id", "labels", "created_at", "completed_at"),
    *("pr_url", "pr_state", "error", "queue_reason", "follows"),
)


async def list_agents(call: ToolCall) -> ToolResult:
    agents = (await fetch_json(call.api, RestRequest("GET", "/agents"), "agents"))["agents"]
    lines = [f"- {_describe_agent(agent)}" for agent in agents]
    return ToolResult({"agents": agents}, "\n".join(lines) or "No agents are enabled.")


async def list_repos(call: ToolCall) -> ToolResult:
    arguments: ListRepos = call.arguments
    query = _page(arguments.limit, arguments.cursor)
    page = await fetch_json(call.api, RestRequest("GET", "/repos", query), "repos")
    repos = [_select(repo, _REPO_FIELDS) for repo in page["repos"]]
    lines = [
        f"- {repo['full_name']} ({repo['platform']}, {repo['index_status']})" for repo in repos
    ]
    return _page_result("repos", repos, page, lines)


async def list_jobs(call: ToolCall) -> ToolResult:
    arguments: ListJobs = call.arguments
    filters = {
        "status": ",".join(arguments.status) if arguments.status else None,
        "repo": arguments.repo,
        "agent": arguments.agent,
        "ticket_id": arguments.ticket_id,
        **{f"label.{key}": value for key, value in (arguments.labels or {}).items()},
    }
    query = {name: value for name, value in filters.items() if value is not None}
    query |= _page(arguments.limit, arguments.cursor)
    page = await fetch_json(call.api, RestRequest("GET", "/jobs", query), "jobs")
    jobs = [summarize(job) for job in page["jobs"]]
    return _page_result("jobs", jobs, page, [f"- {describe_briefly(job)}" for job in jobs])


async def recent_jobs(api: RestApi, limit: int) -> list[dict[str, Any]]:
    page = await fetch_json(api, RestRequest("GET", "/jobs", {"limit": str(limit)}), "jobs")
    return [summarize(job) for job in page["jobs"]]


def summarize(job: Mapping[str, Any]) -> dict[str, Any]:
    return _select(job, _JOB_FIELDS)


def describe_briefly(job: Mapping[str, Any]) -> str:
    text = f"{job['job_id']}: {job['status']}, {job['agent']} on {job['repo']}"
    return f"{text}, {job['pr_url']}" if job.get("pr_url") else text


def warning_lines(response: Mapping[str, Any]) -> list[str]:
    """What the API ignored, such as a filter that it does not know."""
    return [f"Warning: {warning}" for warning in response.get("warnings") or ()]


def _select(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if fields.get(name) not in (None, {}, [])}


def _describe_agent(agent: Mapping[str, Any]) -> str:
    text = f"{agent['id']}: {agent.get('description') or agent['name']}"
    notes = []
    if agent.get("result") == "report":
        notes.append("writes a report instead of a pull request")
    if not agent["available"]:
        notes.append(f"not available: needs the plan {agent['plan_required']}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _page(limit: int, cursor: str | None) -> dict[str, str]:
    page = {"limit": str(int(limit))}
    return page if cursor is None else {**page, "cursor": cursor}


def _page_result(
    name: str, items: list[Any], page: Mapping[str, Any], lines: list[str]
) -> ToolResult:
    cursor = page.get("next_cursor")
    if cursor is not None:
        lines.append(f"There are more: call again with the cursor {cursor}")
    warnings = warning_lines(page)
    content = {name: items, "next_cursor": cursor, "warnings": page.get("warnings") or []}
    return ToolResult(content, "\n".join((*(lines or [f"No {name} found."]), *warnings)))
