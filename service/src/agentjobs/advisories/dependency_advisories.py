"""Dependencies with their advisories, as of the last scan."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from agentjobs.advisories.findings import findings_of_repo
from agentjobs.inventory.dependencies import DependencyView
from agentjobs.store.database import Database
from agentjobs_dependencies.advisories.severity import LEVELS
from agentjobs_dependencies.model import Imported, Scope
from agentjobs_runtime.json_fields import copy_fields, doc, known_values
from agentjobs_runtime.settings.registries import ECOSYSTEMS


class DependencyAdvisory(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, doc("The advisory that represents all of this vulnerability.")]
    aliases: Annotated[tuple[str, ...], doc("Other identifiers of the same vulnerability.")]
    severity: Annotated[str, known_values("How severe it is.", LEVELS)]
    score: Annotated[float | None, doc("The CVSS base score, if there is one.")]
    summary: Annotated[str, doc("A summary on one line.")]
    fix_version: Annotated[
        str | None, doc("The version that no known advisory affects; null if there is none.")
    ]
    fix_reason: Annotated[str, doc("Why this version was chosen, or none.")]


class DependencyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A dependency as the API returns it."""

    purl: Annotated[str, doc("Package URL; empty for a name that it cannot represent.")]
    ecosystem: Annotated[
        str, known_values("Where the package is published, as OSV names it.", ECOSYSTEMS)
    ]
    name: Annotated[str, doc("The package's name, normalized for its ecosystem.")]
    version: Annotated[str | None, doc("The version; null when nothing pins it.")]
    requirement: Annotated[
        str, doc("The repository's own requirement; empty for a transitive dependency.")
    ]
    direct: Annotated[bool, doc("Whether the repository itself requires it.")]
    scope: Annotated[Scope, doc("What it is needed for.")]
    manifest: Annotated[str, doc("The file that pins the version: the lock file, if there is one.")]
    parents: Annotated[
        tuple[str, ...],
        doc("The path from a direct dependency to this one; empty for a direct one."),
    ]
    fixture: Annotated[bool, doc("Whether the manifest belongs to tests or examples.")]
    imported: Annotated[
        Imported,
        doc(
            "Whether source files of the repository import it, or a package that requires it. `no`"
            " does not rule out that it is loaded by name or run as a program."
        ),
    ]
    managed_by: Annotated[
        str,
        doc("The published parent or BOM of Maven that sets the version; empty if none does."),
    ]
    advisories: Annotated[
        Sequence[DependencyAdvisory], doc("Its known advisories, most severe first.")
    ]


def dependency_document(
    dependency: DependencyView, advisories: Sequence[DependencyAdvisory]
) -> DependencyDocument:
    return copy_fields(dependency, DependencyDocument, advisories=advisories)


async def find_advisories(
    db: Database, repo_id: str, dependencies: Iterable[DependencyView]
) -> dict[int, list[DependencyAdvisory]]:
    """Finds advisories by position, worst first; dependencies without one are left out."""
    positions: dict[tuple[str, ...], list[int]] = {}
    for package in dependencies:
        if package.version is not None:
            key = (package.manifest, package.ecosystem, package.name, package.version)
            positions.setdefault(key, []).append(package.position)
    if not positions:
        return {}
    names = sorted({name for _, _, name, _ in positions})
    advisories: dict[int, list[DependencyAdvisory]] = {}
    for finding in await findings_of_repo(db, repo_id, names):
        advisory = copy_fields(finding, DependencyAdvisory, id=finding.advisory_id)
        for position in positions.get((finding.manifest, *finding.package), ()):
            advisories.setdefault(position, []).append(advisory)
    return advisories
