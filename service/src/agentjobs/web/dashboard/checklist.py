"""The first steps of an organization, until they are done."""

import msgspec

from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import list_lines
from agentjobs.organizations.api_keys import list_keys
from agentjobs.repos.queries import list_repos
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.webhooks.endpoints import list_endpoints


class Step(msgspec.Struct, frozen=True):
    text: str
    path: str
    role: str
    is_done: bool
    note: str = ""


async def load_checklist(request: PageRequest) -> list[Step]:
    """Empty once a job was completed: whoever does without a webhook is not asked again."""
    organization = request.organization_id
    completed = await list_lines(request.db, organization, JobFilter(status="completed"), limit=1)
    if completed.lines:
        return []
    jobs = await list_lines(request.db, organization, JobFilter(), limit=1)
    agents = [
        agent
        for agent in request.context.catalog.all()
        if request.context.plans.allows(request.viewer.plan, agent.plan_required)
    ]
    return [
        Step(
            "Connect a repository",
            "/repos#add",
            "admin",
            bool(await list_repos(request.db, organization, limit=1)),
            "or run agentjobs repos connect PATH on the server",
        ),
        Step("Choose an agent that your plan includes", "/agents", "viewer", bool(agents)),
        Step("Run a first job", "/jobs/new", "member", bool(jobs.lines)),
        Step(
            "Create an API key",
            "/settings/api-keys#add",
            "admin",
            bool(await list_keys(request.db, request.organization)),
            "to create jobs from your own programs",
        ),
        Step(
            "Add a webhook",
            "/settings/webhooks#add",
            "admin",
            bool(await list_endpoints(request.db, request.organization)),
            "to learn of every change of a job",
        ),
    ]
