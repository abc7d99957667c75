"""/repos/{full_name}: starting a job, latest jobs, open pull requests, vulnerabilities, index."""

from collections.abc import Iterable

from starlette.responses import Response

from agentjobs.advisories.finding_filter import FindingFilter
from agentjobs.advisories.findings import count_findings
from agentjobs.advisories.packages import list_packages
from agentjobs.inventory.dependencies import count_dependencies
from agentjobs.inventory.stored_graph import load_summary
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import JobLine, list_lines
from agentjobs.platform_sync.state import sync_state
from agentjobs.pulls.pulls import list_pulls
from agentjobs.web.dashboard.jobs.agent_options import AgentOption, agent_options
from agentjobs.web.dashboard.live import live
from agentjobs.web.dashboard.page_route import PageHandler, PageRoute, Routes
from agentjobs.web.dashboard.repos.index_text import PLATFORM_NAMES, index_state
from agentjobs.web.dashboard.repos.language_bar import language_bar
from agentjobs.web.dashboard.repos.lookup import REPO_PATH, NoSuchRepository, require_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.feed_state import has_advisories
from agentjobs_runtime.agents.definitions import CVE_FIXER

_SHOWN = 5
_PARTS = tuple(f"repos/{name}" for name in ("state", "jobs", "pulls", "findings", "index"))


def repo_page_route(name: str, handler: PageHandler) -> PageRoute:
    """A subpage or its stream. With nested groups, a repository itself may have the page's name."""
    page, is_stream = name.removesuffix("/stream"), name.endswith("/stream")

    async def handle(request: PageRequest) -> Response:
        try:
            return await handler(request)
        except NoSuchRepository:
            request.http.path_params["full_name"] += f"/{page}"
            # A page, even if its path looked like that of a stream.
            request.parts = None
            return await (_stream if is_stream else show)(request)

    return PageRoute("GET", f"{REPO_PATH}/{name}", "viewer", handle)


async def show(request: PageRequest) -> Response:
    repo = await require_repo(request)
    db, organization = request.db, request.organization_id
    jobs = await list_lines(db, organization, JobFilter(repo=repo.full_name), limit=_SHOWN)
    counted = FindingFilter(repo_id=repo.id, fixture=False, decided=False)
    summary = await load_summary(db, repo.id)
    options = agent_options(request)
    return await request.render(
        "repos/detail.html",
        repo=repo,
        state=index_state(repo),
        jobs=jobs.lines,
        pulls=await list_pulls(
            db, request.organization, repo.full_name, state="open", limit=_SHOWN
        ),
        findings=await count_findings(db, organization, repo_id=repo.id),
        packages=await list_packages(db, organization, counted, limit=_SHOWN),
        languages=language_bar(summary.languages),
        warnings=summary.warnings,
        dependencies=await count_dependencies(db, repo.id),
        is_scanned=await has_advisories(request),
        agent_options=options,
        agent=_preferred_agent(options, jobs.lines),
        platform_name=PLATFORM_NAMES.get(repo.platform, repo.platform),
        platform=None if repo.platform == "local" else await sync_state(db, repo.id),
        git_url=f"{request.settings.effective_public_url}/git/{request.organization}/{repo.full_name}.git",
    )


def _preferred_agent(options: Iterable[AgentOption], jobs: Iterable[JobLine]) -> str:
    """The agent that was used last. `cve-fixer` is started from vulnerabilities."""
    allowed = [agent for agent, _, unavailable in options if not unavailable and agent != CVE_FIXER]
    return next((job.agent for job in jobs if job.agent in allowed), next(iter(allowed), ""))


_stream = live(show, *_PARTS, topics=("index", "repos", "findings", "platforms"))
ROUTES: Routes = [
    repo_page_route("stream", _stream),
    # Last of the repository's pages, because its path matches the others.
    PageRoute("GET", REPO_PATH, "viewer", show),
]
