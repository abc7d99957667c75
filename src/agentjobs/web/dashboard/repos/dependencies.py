"""/repos/{full_name}/dependencies: what manifests lead to, and what is known against it."""

from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from agentjobs.advisories.dependency_advisories import DependencyAdvisory, advisories_of
from agentjobs.inventory.dependencies import DependencyView, count_dependencies, list_dependencies
from agentjobs.web.dashboard.page_route import Routes
from agentjobs.web.dashboard.pages import prefix_of
from agentjobs.web.dashboard.repos.detail import page_of_repo
from agentjobs.web.dashboard.repos.lookup import repo_of
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.vulnerabilities.feed_state import is_looked_for

_PER_PAGE = 100
_KINDS = {"direct": True, "transitive": False}


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """As it stands in the address: text, empty for any."""

    q: str = ""
    ecosystem: str = ""
    kind: str = ""
    manifest: str = ""
    vulnerable: str = ""
    after: str = ""

    @property
    def is_narrowed(self) -> bool:
        return any((self.q, self.ecosystem, self.kind, self.manifest, self.vulnerable))

    def address(self, here: str, **changes: str) -> str:
        fields = {**msgspec.structs.asdict(self), **changes}
        query = urlencode({name: text for name, text in fields.items() if text})
        return f"{here}?{query}" if query else here


class _Line(msgspec.Struct, frozen=True):
    """`fix_version` ends all that is known; without one `fix_reason` says why. `graph` leads to
    the package among the others."""

    dependency: DependencyView
    advisories: list[DependencyAdvisory]
    fix_version: str | None
    fix_reason: str
    graph: str


async def show(request: PageRequest) -> Response:
    repo = await repo_of(request)
    query = _query(request)
    here = f"{prefix_of(request.settings)}/repos/{repo.full_name}"
    found = await list_dependencies(request.db, repo.id, limit=_PER_PAGE + 1, **_filter(query))
    shown = found[:_PER_PAGE]
    known = await advisories_of(request.db, repo.id, shown)
    counts = await count_dependencies(request.db, repo.id)
    is_more = len(found) > _PER_PAGE
    place = f"{here}/dependencies"
    return await request.render(
        "repos/dependencies.html",
        repo=repo,
        query=query,
        counts=counts,
        is_looked_for=await is_looked_for(request),
        lines=[_line(one, known.get(one.position, []), here) for one in shown],
        ecosystem_options=[("", "any"), *_options(counts.by_ecosystem, query.ecosystem)],
        kind_options=[("", "any"), ("direct", "direct"), ("transitive", "through others")],
        next=query.address(place, after=str(shown[-1].position)) if is_more else "",
        first=query.address(place, after="") if query.after else "",
        any_manifest=query.address(place, manifest="", after=""),
    )


def _query(request: PageRequest) -> _Query:
    kept = {name: request.query_param(name)[:1_000] for name in _Query.__struct_fields__}
    kept["kind"] = kept["kind"] if kept["kind"] in _KINDS else ""
    kept["vulnerable"] = "yes" if kept["vulnerable"] else ""
    after = kept["after"]
    kept["after"] = after if after.isascii() and after.isdecimal() and len(after) < 16 else ""
    return _Query(**kept)


def _filter(query: _Query) -> dict[str, Any]:
    return {
        "search": query.q,
        "ecosystem": query.ecosystem or None,
        "direct": _KINDS.get(query.kind),
        "manifest": query.manifest or None,
        "vulnerable": bool(query.vulnerable),
        "after": int(query.after) if query.after else None,
    }


def _options(known: dict[str, int], chosen: str) -> list[tuple[str, str]]:
    """With the one in the address, should it be none of them."""
    names = [*known, *([chosen] if chosen and chosen not in known else [])]
    return [(name, name) for name in names]


def _line(one: DependencyView, advisories: list[DependencyAdvisory], here: str) -> _Line:
    """All findings of a package in a version have the same fix."""
    first = advisories[0] if advisories else None
    around = urlencode({"ecosystem": one.ecosystem, "package": one.name})
    return _Line(
        one,
        advisories,
        first.fix_version if first else None,
        first.fix_reason if first else "",
        f"{here}/graph?{around}",
    )


ROUTES: Routes = [page_of_repo("dependencies", show)]
