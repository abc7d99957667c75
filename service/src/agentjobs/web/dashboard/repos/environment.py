"""/repos/{full_name}/environment: what the service sets for the environment of a repository."""

from starlette.responses import Response

from agentjobs.environments.builds import TOPIC, log_topic
from agentjobs.environments.repo_settings import (
    set_definition,
    set_trusted_branches,
)
from agentjobs.repos.environment_text import format_environment, parse_environment
from agentjobs.repos.queries import RepoView
from agentjobs.web.dashboard.live import live
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.repos.detail import repo_page_route
from agentjobs.web.dashboard.repos.environment_builds import load_values
from agentjobs.web.dashboard.repos.lookup import REPO_PATH, require_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

_PARTS = tuple(f"repos/environment_{name}" for name in ("builds", "build", "log"))


async def change(request: PageRequest) -> Response:
    repo = await require_repo(request)
    text = request.form.raw("definition")
    definition, warnings = parse_environment(text.encode(), "The definition")
    await set_definition(request.db, request.organization_id, repo.id, repo.full_name, definition)
    return request.redirect(_path(repo), banner=" ".join(("Saved.", *warnings[:1])))


async def clear(request: PageRequest) -> Response:
    repo = await require_repo(request)
    await set_definition(request.db, request.organization_id, repo.id, repo.full_name, None)
    banner = "Removed. The repository's files define its environment."
    return request.redirect(_path(repo), banner=banner)


async def trust(request: PageRequest) -> Response:
    repo = await require_repo(request)
    branches = request.form.raw("branches").split()
    await set_trusted_branches(
        request.db, request.organization_id, repo.id, repo.full_name, branches
    )
    return request.redirect(_path(repo), banner="Saved.")


async def show(request: PageRequest, problem: Problem | None = None) -> Response:
    form, values = request.form, await load_values(request, await require_repo(request))
    stored, build = values["effective"].settings, values["build"]
    request.topics = (TOPIC,) if build is None else (TOPIC, log_topic(build.id))
    defined = "" if stored.definition is None else format_environment(stored.definition)
    return await request.render(
        "repos/environment.html",
        problem=problem,
        **values,
        defined=defined,
        text=form.raw("definition") if "definition" in form else defined,
        trusted_branches=stored.trusted_branches,
        branches=form.raw("branches") if "branches" in form else "\n".join(stored.trusted_branches),
    )


def _path(repo: RepoView) -> str:
    return f"/repos/{repo.full_name}/environment"


ROUTES: Routes = [
    repo_page_route("environment", show),
    repo_page_route("environment/stream", live(show, *_PARTS)),
    PageRoute("POST", f"{REPO_PATH}/environment", "admin", change, problem_page=show),
    PageRoute("POST", f"{REPO_PATH}/environment/clear", "admin", clear),
    PageRoute(
        "POST", f"{REPO_PATH}/environment/trusted-branches", "admin", trust, problem_page=show
    ),
]
