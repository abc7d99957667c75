"""Stores indexes and findings of repositories without git or a scan."""

from collections.abc import Iterable, Sequence
from dataclasses import fields

from agentjobs.advisories.findings import replace_findings
from agentjobs.inventory.dependencies import DependencyView
from agentjobs.inventory.index.wire import Result
from agentjobs.inventory.rows import prepare, store_result
from agentjobs.store.database import Database, Transaction
from agentjobs_dependencies.advisories.dependency_matching import AdvisorySummary, Finding
from agentjobs_dependencies.graph.encoding import pack_graph
from agentjobs_dependencies.imports.model import ModuleGraph
from agentjobs_dependencies.model import Dependency
from agentjobs_dependencies.purl import format_purl
from agentjobs_dependencies.version_choice import Choice

COMMIT = "c" * 40


def package(
    ecosystem: str,
    name: str,
    version: str | None,
    *parents: str,
    direct: bool | None = None,
    manifest: str = "",
    scope: str = "runtime",
    fixture: bool = False,
) -> Dependency:
    """Direct unless it has parents; the manifest is named after the ecosystem."""
    is_direct = not parents if direct is None else direct
    return Dependency(
        ecosystem=ecosystem,
        name=name,
        version=version,
        requirement=">=1" if is_direct else "",
        direct=is_direct,
        scope=scope,  # type: ignore[arg-type]
        manifest=manifest or f"{ecosystem}.lock",
        parents=parents,
        fixture=fixture,
    )


def views(dependencies: Iterable[Dependency]) -> list[DependencyView]:
    """The views of the dependencies once stored."""
    return [
        DependencyView(
            position=at,
            purl=format_purl(dependency.ecosystem, dependency.name, dependency.version),
            **{field.name: getattr(dependency, field.name) for field in fields(Dependency)},
        )
        for at, dependency in enumerate(dependencies)
    ]


async def store_index(
    db: Database,
    repo_id: str,
    dependencies: Sequence[Dependency],
    graph: ModuleGraph | None = None,
) -> None:
    result = Result(
        line_count=0,
        file_count=0,
        languages=(),
        warnings=(),
        dependencies_digest="",
        dependencies=tuple(dependencies),
        graph=pack_graph(graph or ModuleGraph()),
        configuration=None,
    )

    async def store(tx: Transaction) -> None:
        # The claim of an index makes the row.
        await tx.execute(
            "INSERT INTO repo_index (repo_id) VALUES (:id) ON CONFLICT DO NOTHING", id=repo_id
        )
        await store_result(tx, repo_id, COMMIT, COMMIT, prepare(repo_id, result))

    await db.transact(store)


def fault(
    dependency: Dependency, advisory_id: str, severity: str = "high", score: float | None = 7.5
) -> Finding:
    assert dependency.version is not None
    record = AdvisorySummary(
        id=advisory_id,
        aliases=(f"CVE-of-{advisory_id}",),
        severity=severity,
        score=score,
        ranges="< 9",
        summary="A leak",
        url=f"https://advisories.example/{advisory_id}",
        fixed=("9",),
    )
    return Finding(
        manifest=dependency.manifest,
        ecosystem=dependency.ecosystem,
        name=dependency.name,
        version=dependency.version,
        direct=dependency.direct,
        advisory_id=advisory_id,
        advisories=(record,),
        severity=severity,
        score=score,
        severity_source="no database rates it" if score is None else f"CVSS 3.1 of {advisory_id}",
        summary="A leak",
    )


async def store_findings(
    db: Database, organization_id: str, repo_id: str, *findings: Finding
) -> None:
    """Each package has a fix unless it has no score."""
    choices = {
        finding.package: Choice(
            None if finding.score is None else "9", "no fix is known", "advisories"
        )
        for finding in findings
    }
    await db.transact(replace_findings, organization_id, repo_id, findings, choices)
