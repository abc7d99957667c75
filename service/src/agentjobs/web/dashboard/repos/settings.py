"""/repos/{full_name}/settings: automatic fixes, protected paths, configuration, disconnecting."""

from functools import partial
from typing import Any

from starlette.responses import Response

from agentjobs.jobs.operations.disconnect import disconnect_repository
from agentjobs.local_git.repositories import path as git_path
from agentjobs.platform_sync.state import RepoSyncState, sync_state
from agentjobs.repos.configuration_status import ConfigurationStatus, configuration_status
from agentjobs.repos.protected_paths import remove_protection, restore_protection
from agentjobs.repos.queries import RepoView
from agentjobs.repos.thresholds import load_thresholds, set_repo_threshold
from agentjobs.web.dashboard.live import live
from agentjobs.web.dashboard.page_route import PageRoute, Routes
from agentjobs.web.dashboard.repos.detail import repo_page_route
from agentjobs.web.dashboard.repos.lookup import REPO_PATH, require_repo
from agentjobs.web.dashboard.repos.threshold_text import repo_options
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.repo_files.rules import PROTECTED_FILES, PROTECTED_PATTERNS


async def disconnect(request: PageRequest) -> Response:
    repo = await require_repo(request)
    await disconnect_repository(request.db, request.organization, repo.full_name)
    banner = f"{repo.full_name} was disconnected. Its jobs are kept."
    return request.redirect("/repos", banner=banner)


async def unprotect_path(request: PageRequest) -> Response:
    return await _change_protection(request, remove_protection, "Agents can now change this path.")


async def protect_path(request: PageRequest) -> Response:
    return await _change_protection(request, restore_protection, "The path is protected again.")


async def set_threshold(request: PageRequest) -> Response:
    repo = await require_repo(request)
    level = request.form.text("level")
    await set_repo_threshold(request.db, request.organization, repo.full_name, level)
    banner = "Saved. Known vulnerabilities are checked again."
    return request.redirect(_path(repo), banner=banner)


async def _change_protection(request: PageRequest, change: Any, banner: str) -> Response:
    repo = await require_repo(request)
    await change(request.db, request.organization, repo.full_name, request.form.text("pattern"))
    return request.redirect(_path(repo), banner=banner)


async def _sync(request: PageRequest, repo: RepoView) -> RepoSyncState | None:
    return None if repo.platform == "local" else await sync_state(request.db, repo.id)


async def _configuration(
    request: PageRequest, repo: RepoView, sync: RepoSyncState | None
) -> ConfigurationStatus | None:
    """None if the repository is on another host or not fetched yet."""
    root = request.settings.repositories_path
    if not root.is_dir():
        return None
    if sync is not None and not (git_path(root, repo.id) / "HEAD").is_file():
        return None
    return await configuration_status(root, repo)


async def show(
    request: PageRequest, problem: Problem | None = None, *, open_form: str = ""
) -> Response:
    """`open_form` is the form with an error, which stays open."""
    repo = await require_repo(request)
    thresholds = await load_thresholds(request.db, repo.id)
    sync = await _sync(request, repo)
    return await request.render(
        "repos/settings.html",
        problem=problem,
        open_form=open_form,
        repo=repo,
        thresholds=thresholds,
        threshold_options=repo_options(thresholds),
        sync=sync,
        configuration=await _configuration(request, repo, sync),
        protected=[*PROTECTED_PATTERNS, *sorted(PROTECTED_FILES)],
        pattern=request.form.text("pattern"),
    )


def _path(repo: RepoView) -> str:
    return f"/repos/{repo.full_name}/settings"


_show_protection = partial(show, open_form="protection")
ROUTES: Routes = [
    repo_page_route("settings", show),
    repo_page_route("settings/stream", live(show, "repos/sync", topics=("repos", "platforms"))),
    PageRoute("POST", f"{REPO_PATH}/disconnect", "admin", disconnect),
    PageRoute("POST", f"{REPO_PATH}/auto-trigger", "admin", set_threshold, problem_page=show),
    PageRoute("POST", f"{REPO_PATH}/lift", "admin", unprotect_path, problem_page=_show_protection),
    PageRoute("POST", f"{REPO_PATH}/protect", "admin", protect_path, problem_page=_show_protection),
]
