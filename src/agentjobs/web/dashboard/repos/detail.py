"""/repos/{full_name}: index, configuration, thresholds and protected paths of a repository."""

from typing import Any

from starlette.responses import Response

from agentjobs.advisories.findings import count_findings
from agentjobs.inventory.dependencies import count_dependencies
from agentjobs.inventory.graph.stored import load_summary
from agentjobs.jobs.disconnect import disconnect_repository
from agentjobs.jobs.views.job_filter import JobFilter
from agentjobs.jobs.views.listing import list_lines
from agentjobs.local_git.repositories import path as git_path
from agentjobs.platform_sync.state import RepoSyncState, sync_state
from agentjobs.problems import Problem
from agentjobs.pulls.pulls import list_pulls
from agentjobs.repos.configuration_status import ConfigurationStatus, configuration_status
from agentjobs.repos.protected_paths import remove_protection, restore_protection
from agentjobs.repos.queries import RepoView
from agentjobs.repos.thresholds import load_thresholds, set_repo_threshold
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.page_route import PageHandler, PageRoute, Routes
from agentjobs.web.dashboard.repos.language_bar import language_bar
from agentjobs.web.dashboard.repos.lookup import REPO_PATH, NoSuchRepository, require_repo
from agentjobs.web.dashboard.repos.threshold_text import repo_options
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.feed_state import has_advisories
from agentjobs.workspace.rules import PROTECTED_FILES, PROTECTED_PATTERNS

_SHOWN = 5


async def show(request: PageRequest) -> Response:
    return await _page(request, await require_repo(request))


def repo_page_route(name: str, handler: PageHandler) -> PageRoute:
    """A subpage. With nested groups, a repository itself may have this name."""

    async def handle(request: PageRequest) -> Response:
        try:
            return await handler(request)
        except NoSuchRepository:
            request.http.path_params["full_name"] += f"/{name}"
            return await show(request)

    return PageRoute("GET", f"{REPO_PATH}/{name}", "viewer", handle)


async def stream(request: PageRequest) -> Response:
    # Checked before the stream starts: browsers reconnect to a broken stream forever.
    await require_repo(request)

    async def parts() -> Parts:
        repo = await require_repo(request)
        values = {**await _index_values(request, repo), "sync": await _sync(request, repo)}
        names = ("index", "packages", *([] if values["sync"] is None else ["sync"]))
        return {
            f"repo-{name}": await request.fragment(f"repos/{name}.html", **values) for name in names
        }

    return live_parts(request, ("index", "repos", "findings", "forges"), parts)


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
    try:
        level = request.form.text("level")
        await set_repo_threshold(request.db, request.organization, repo.full_name, level)
    except Problem as problem:
        return await _page(request, repo, problem, open_form="threshold")
    return request.redirect(
        f"/repos/{repo.full_name}", banner="Saved. Known vulnerabilities are checked again."
    )


async def _change_protection(request: PageRequest, change: Any, banner: str) -> Response:
    repo = await require_repo(request)
    try:
        await change(request.db, request.organization, repo.full_name, request.form.text("pattern"))
    except Problem as problem:
        return await _page(request, repo, problem, open_form="protection")
    return request.redirect(f"/repos/{repo.full_name}", banner=banner)


async def _index_values(request: PageRequest, repo: RepoView) -> dict[str, Any]:
    """What the index found; the page updates it live."""
    summary = await load_summary(request.db, repo.id)
    return {
        "repo": repo,
        "languages": language_bar(summary.languages),
        "warnings": summary.warnings,
        "dependencies": await count_dependencies(request.db, repo.id),
        "is_scanned": await has_advisories(request),
        "findings": await count_findings(request.db, request.organization_id, repo_id=repo.id),
    }


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


async def _page(
    request: PageRequest, repo: RepoView, problem: Problem | None = None, *, open_form: str = ""
) -> Response:
    """`open_form` is the form with an error, which stays open."""
    job_filter = JobFilter(repo=repo.full_name)
    jobs = await list_lines(request.db, request.organization_id, job_filter, limit=_SHOWN)
    thresholds = await load_thresholds(request.db, repo.id)
    sync = await _sync(request, repo)
    return await request.render(
        "repos/detail.html",
        problem=problem,
        open_form=open_form,
        **await _index_values(request, repo),
        thresholds=thresholds,
        threshold_options=repo_options(thresholds),
        jobs=jobs.lines,
        pulls=await list_pulls(request.db, request.organization, repo.full_name, limit=_SHOWN),
        sync=sync,
        configuration=await _configuration(request, repo, sync),
        git_url=f"{request.settings.effective_public_url}/git/{request.organization}/{repo.full_name}.git",
        protected=[*PROTECTED_PATTERNS, *sorted(PROTECTED_FILES)],
        pattern=request.form.text("pattern"),
    )


ROUTES: Routes = [
    repo_page_route("stream", stream),
    PageRoute("POST", f"{REPO_PATH}/disconnect", "admin", disconnect),
    PageRoute("POST", f"{REPO_PATH}/auto-trigger", "admin", set_threshold),
    PageRoute("POST", f"{REPO_PATH}/lift", "admin", unprotect_path),
    PageRoute("POST", f"{REPO_PATH}/protect", "admin", protect_path),
    # Last of the repository's pages, because its path matches the others.
    PageRoute("GET", REPO_PATH, "viewer", show),
]
