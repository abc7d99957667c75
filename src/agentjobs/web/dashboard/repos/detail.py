"""/repos/{owner}/{name}: one repository: index, configuration, what agents may not touch."""

from typing import Any

from starlette.responses import Response

from agentjobs.advisories.findings import count_by_severity
from agentjobs.forges.local_repositories import repositories_root
from agentjobs.forges.pulls import list_pulls
from agentjobs.jobs.disconnect import disconnect_repository
from agentjobs.jobs.listing import JobFilter, list_lines
from agentjobs.problems import Problem
from agentjobs.repos.dependencies import count_dependencies
from agentjobs.repos.graph import load_summary
from agentjobs.repos.lifting import lift, protect
from agentjobs.repos.page_facts import configuration_status
from agentjobs.repos.queries import RepoView
from agentjobs.repos.thresholds import set_repo_threshold, thresholds_of
from agentjobs.web.dashboard.live import Parts, live_parts
from agentjobs.web.dashboard.places import OpenPlace, Place
from agentjobs.web.dashboard.repos.language_bar import language_bar
from agentjobs.web.dashboard.repos.named import PLACE, repo_of
from agentjobs.web.dashboard.repos.threshold_words import repo_options
from agentjobs.web.dashboard.visits import Visit
from agentjobs.web.dashboard.vulnerabilities.feed_state import is_looked_for
from agentjobs.workspace.rules import PROTECTED_FILES, PROTECTED_PATTERNS

_SHOWN = 5


async def show(visit: Visit) -> Response:
    return await _page(visit, await repo_of(visit))


async def stream(visit: Visit) -> Response:
    # Before the stream begins: a browser comes back to one that breaks off, for ever.
    await repo_of(visit)

    async def parts() -> Parts:
        indexed = await _indexed(visit, await repo_of(visit))
        return {
            f"repo-{name}": await visit.fragment(f"repos/{name}.html", **indexed)
            for name in ("index", "packages")
        }

    return live_parts(visit, ("index", "repos", "findings"), parts)


async def disconnect(visit: Visit) -> Response:
    repo = await repo_of(visit)
    await disconnect_repository(visit.db, visit.organization, repo.full_name)
    said = f"{repo.full_name} is disconnected. Its jobs stay in the list."
    return visit.redirect("/repos", said=said)


async def lift_path(visit: Visit) -> Response:
    return await _change_protection(visit, lift, "Agents may change it now.")


async def protect_path(visit: Visit) -> Response:
    return await _change_protection(visit, protect, "It is protected again.")


async def set_threshold(visit: Visit) -> Response:
    repo = await repo_of(visit)
    try:
        level = visit.form.text("level")
        await set_repo_threshold(visit.db, visit.organization, repo.full_name, level)
    except Problem as problem:
        return await _page(visit, repo, problem, opened="threshold")
    return visit.redirect(
        f"/repos/{repo.full_name}", said="It is saved. What is known already is looked at again."
    )


async def _change_protection(visit: Visit, change: Any, said: str) -> Response:
    repo = await repo_of(visit)
    try:
        await change(visit.db, visit.organization, repo.full_name, visit.form.text("pattern"))
    except Problem as problem:
        return await _page(visit, repo, problem, opened="protection")
    return visit.redirect(f"/repos/{repo.full_name}", said=said)


async def _indexed(visit: Visit, repo: RepoView) -> dict[str, Any]:
    """What the index found: it changes while one looks."""
    summary = await load_summary(visit.db, repo.id)
    return {
        "repo": repo,
        "languages": language_bar(summary.languages),
        "warnings": summary.warnings,
        "dependencies": await count_dependencies(visit.db, repo.id),
        "is_looked_for": await is_looked_for(visit),
        "severities": await count_by_severity(visit.db, visit.organization_id, repo_id=repo.id),
    }


async def _page(
    visit: Visit, repo: RepoView, problem: Problem | None = None, *, opened: str = ""
) -> Response:
    """`opened` is the form that was refused, which stays open."""
    wanted = JobFilter(repo=repo.full_name)
    jobs = await list_lines(visit.db, visit.organization_id, wanted, limit=_SHOWN)
    thresholds = await thresholds_of(visit.db, repo.id)
    is_local = repo.platform == "local" and repositories_root(visit.settings.data_path).is_dir()
    return await visit.page(
        "repos/detail.html",
        problem=problem,
        opened=opened,
        **await _indexed(visit, repo),
        thresholds=thresholds,
        threshold_options=repo_options(thresholds),
        jobs=jobs.lines,
        pulls=await list_pulls(visit.db, visit.organization, repo.full_name, limit=_SHOWN),
        configuration=(
            await configuration_status(visit.settings.data_path, repo) if is_local else None
        ),
        git_url=f"{visit.settings.effective_public_url}/git/{visit.organization}/{repo.full_name}.git",
        protected=[*PROTECTED_PATTERNS, *sorted(PROTECTED_FILES)],
        pattern=visit.form.text("pattern"),
    )


PLACES: list[Place | OpenPlace] = [
    Place("GET", PLACE, "viewer", show),
    Place("GET", f"{PLACE}/stream", "viewer", stream),
    Place("POST", f"{PLACE}/disconnect", "admin", disconnect),
    Place("POST", f"{PLACE}/auto-trigger", "admin", set_threshold),
    Place("POST", f"{PLACE}/lift", "admin", lift_path),
    Place("POST", f"{PLACE}/protect", "admin", protect_path),
]
