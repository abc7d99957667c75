"""/repos/{full_name}/dependencies: the dependencies and their known vulnerabilities."""

from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from agentjobs.advisories.dependency_advisories import DependencyAdvisory, find_advisories
from agentjobs.inventory.dependencies import DependencyView, count_dependencies, list_dependencies
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.repos.detail import repo_page_route
from agentjobs.web.dashboard.repos.lookup import require_repo
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.feed_state import has_advisories
from agentjobs.web.dashboard.vulnerabilities.package_filters import (
    FILES,
    FILES_OPTIONS,
    IMPORTED_OPTIONS,
    read_imported,
)

_PER_PAGE = 100
_KINDS = {"direct": True, "transitive": False}


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """The query parameters; the empty string means any."""

    q: str = ""
    ecosystem: str = ""
    kind: str = ""
    manifest: str = ""
    vulnerable: str = ""
    files: str = ""
    imported: str = ""
    after: str = ""

    @property
    def is_narrowed(self) -> bool:
        fields = msgspec.structs.asdict(self)
        return any(text for name, text in fields.items() if name != "after")

    def address(self, page_url: str, **changes: str) -> str:
        fields = {**msgspec.structs.asdict(self), **changes}
        query = urlencode({name: text for name, text in fields.items() if text})
        return f"{page_url}?{query}" if query else page_url


class _Line(msgspec.Struct, frozen=True):
    """`fix_version` fixes all advisories; if it is None, `fix_reason` says why. `graph` is the
    address of the modules with the package's name in the graph."""

    dependency: DependencyView
    advisories: list[DependencyAdvisory]
    fix_version: str | None
    fix_reason: str
    graph: str


async def show(request: PageRequest) -> Response:
    repo = await require_repo(request)
    query = _query(request)
    repo_url = f"{request.settings.public_path}/repos/{repo.full_name}"
    rows = await list_dependencies(request.db, repo.id, limit=_PER_PAGE + 1, **_filter(query))
    page_rows = rows[:_PER_PAGE]
    known = await find_advisories(request.db, repo.id, page_rows)
    counts = await count_dependencies(request.db, repo.id)
    has_more = len(rows) > _PER_PAGE
    page_url = f"{repo_url}/dependencies"
    return await request.render(
        "repos/dependencies.html",
        repo=repo,
        query=query,
        counts=counts,
        is_scanned=await has_advisories(request),
        lines=[
            _line(dependency, known.get(dependency.position, []), repo_url)
            for dependency in page_rows
        ],
        ecosystem_options=[("", "any"), *_options(counts.by_ecosystem, query.ecosystem)],
        files_options=FILES_OPTIONS,
        imported_options=IMPORTED_OPTIONS,
        fixtures=query.address(page_url, files="fixtures", after=""),
        kind_options=[("", "any"), ("direct", "direct"), ("transitive", "transitive")],
        next=query.address(page_url, after=str(page_rows[-1].position)) if has_more else "",
        first=query.address(page_url, after="") if query.after else "",
        all_manifests=query.address(page_url, manifest="", after=""),
    )


def _query(request: PageRequest) -> _Query:
    values = {name: request.query_param(name)[:1_000] for name in _Query.__struct_fields__}
    values["kind"] = values["kind"] if values["kind"] in _KINDS else ""
    values["files"] = values["files"] if values["files"] in FILES else ""
    values["imported"] = read_imported(values["imported"]) or ""
    values["vulnerable"] = "yes" if values["vulnerable"] else ""
    after = values["after"]
    values["after"] = after if after.isascii() and after.isdecimal() and len(after) < 16 else ""
    return _Query(**values)


def _filter(query: _Query) -> dict[str, Any]:
    return {
        "search": query.q,
        "ecosystem": query.ecosystem or None,
        "direct": _KINDS.get(query.kind),
        "manifest": query.manifest or None,
        "vulnerable": bool(query.vulnerable),
        "imported": read_imported(query.imported),
        # A link to one manifest shows it, whatever it belongs to.
        "fixture": None if query.manifest else FILES[query.files],
        "after": int(query.after) if query.after else None,
    }


def _options(known: dict[str, int], selected: str) -> list[tuple[str, str]]:
    """Includes the selected value even if no dependency has it."""
    names = [*known, *([selected] if selected and selected not in known else [])]
    return [(name, name) for name in names]


def _line(dependency: DependencyView, advisories: list[DependencyAdvisory], repo_url: str) -> _Line:
    """All findings of dependency package version share the same fix."""
    first = advisories[0] if advisories else None
    return _Line(
        dependency,
        advisories,
        first.fix_version if first else None,
        first.fix_reason if first else "",
        f"{repo_url}/graph?{urlencode({'q': dependency.name})}",
    )


ROUTES: Routes = [repo_page_route("dependencies", show)]
