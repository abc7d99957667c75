"""Snapshots, builds and their logs on the page /repos/{full_name}/environment."""

import asyncio
from functools import partial
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from agentjobs.environments.build_queries import find_build, read_log
from agentjobs.environments.builds import request_environment_build
from agentjobs.environments.definition_source import load_definition
from agentjobs.environments.status import EnvironmentStatus, can_build, with_builds
from agentjobs.repos.environment_text import format_environment
from agentjobs.repos.queries import RepoView
from agentjobs.web.dashboard.jobs.log import newest_lines
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.pages import HEADERS
from agentjobs.web.dashboard.repos.detail import repo_page_route
from agentjobs.web.dashboard.repos.lookup import REPO_PATH, require_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.ansi import AnsiLines, PlainLines
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.records import Build
from agentjobs_runtime.problems import Problem


async def log_as_text(request: PageRequest) -> Response:
    repo = await require_repo(request)
    selected = (await load_values(request, repo))["build"]
    if selected is None:
        raise Problem("not_found", "The environment was never built.")
    log = await read_log(request.db, selected.id)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{selected.id}.log"'}
    text = await asyncio.to_thread(_plain_text, log)
    return Response(text.encode("utf-8", "replace"), media_type="text/plain", headers=headers)


async def build(request: PageRequest, *, is_rebuild: bool = False) -> Response:
    repo = await require_repo(request)
    build_id = await request_environment_build(
        request.db, request.organization_id, repo, is_rebuild=is_rebuild
    )
    has_worker = await can_build(request.db, request.settings)
    return request.redirect(
        f"/repos/{repo.full_name}/environment",
        banner="The build was requested."
        if has_worker
        else "The build waits until a worker is running that can provide environments.",
        tone="good" if has_worker else "warn",
        build=build_id,
    )


async def load_values(request: PageRequest, repo: RepoView) -> dict[str, Any]:
    """Raises Problem if the build in the address does not exist."""
    effective = await load_definition(request.db, request.settings.repositories_path, repo)
    status = await with_builds(request.db, effective, repo.id)
    selected = await _select(request, repo, status)
    log = "" if selected is None else await read_log(request.db, selected.id)
    html, is_complete = await asyncio.to_thread(_html, log)
    has_text = effective.definition != EnvironmentDefinition()
    return {
        "repo": repo,
        "environment": status,
        "effective": effective,
        "effective_text": format_environment(effective.definition) if has_text else "",
        "build": selected,
        "log": html,
        "is_log_complete": is_complete,
    }


async def _select(request: PageRequest, repo: RepoView, status: EnvironmentStatus) -> Build | None:
    """The build in the address, or the newest."""
    build_id = request.query_param("build")
    if not build_id:
        return next(iter(status.builds), None)
    selected = await find_build(request.db, build_id, repo.id)
    if selected is None:
        raise Problem("not_found", "There is no such build. It may have been deleted since.")
    return selected


def _html(log: str) -> tuple[Markup, bool]:
    lines = AnsiLines()
    text, is_complete = newest_lines(log)
    return lines.feed(text) + lines.rest(), is_complete


def _plain_text(log: str) -> str:
    lines = PlainLines()
    return lines.feed(log) + lines.rest()


ROUTES: Routes = [
    repo_page_route("environment/log", log_as_text),
    PageRoute("POST", f"{REPO_PATH}/environment/build", "admin", build),
    PageRoute("POST", f"{REPO_PATH}/environment/rebuild", "admin", partial(build, is_rebuild=True)),
]
