"""Generates a CycloneDX 1.6 SBOM of one commit: packages, dependencies, findings.

Does not use CycloneDX's library, which takes minutes for a large repository. Deterministic: the
same index and findings produce the same document.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentjobs_dependencies.advisories.dependency_matching import FindingWithFix
from agentjobs_dependencies.json_output import json_list, json_text
from agentjobs_dependencies.model import Dependency, Imported
from agentjobs_dependencies.package_paths import find_parents
from agentjobs_dependencies.purl import format_purl

_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_SERIAL_NUMBERS = uuid.UUID("f394c5a6-7cf4-489d-a1fa-22895c6ba2f9")
# Strongest first: a package in several scopes gets the strongest.
_SCOPES = {"runtime": "required", "optional": "optional", "dev": "excluded"}
# Strongest first.
_IMPORTED: tuple[Imported, ...] = ("yes", "unknown", "no")
_METHODS = {
    "CVSS 4.0": "CVSSv4",
    "CVSS 3.1": "CVSSv31",
    "CVSS 3.0": "CVSSv3",
    "CVSS 2.0": "CVSSv2",
}

_Key = tuple[str, str, str | None]


class Subject(msgspec.Struct, frozen=True):
    """The repository and the commit that its index describes."""

    repo_id: str
    full_name: str
    commit: str


def sbom_pieces(
    subject: Subject, dependencies: Sequence[Dependency], findings: Iterable[FindingWithFix]
) -> Iterator[str]:
    """`findings` are sorted worst first."""
    components = _components(dependencies)
    refs = {at: item.ref for item in components.values() for at in item.positions}
    yield "{"
    for name, value in _head(subject).items():
        yield f"{json_text(name)}: {json_text(value)},\n"
    yield from json_list("components", map(_component, components.values()))
    yield ",\n"
    yield from json_list("dependencies", _relations(subject.repo_id, dependencies, refs))
    yield ",\n"
    by_key = {key: item.ref for key, item in components.items()}
    yield from json_list("vulnerabilities", _vulnerabilities(findings, by_key))
    yield "}\n"


class _Component(msgspec.Struct):
    """One version of a package, for all manifests that depend on it.

    `is_fixture` is true if only tests or examples do. `imported` is the strongest of all."""

    ref: str
    purl: str
    first: Dependency
    scope: str
    positions: list[int]
    manifests: dict[str, None]
    is_fixture: bool = True
    imported: Imported = "no"


def _head(subject: Subject) -> dict[str, Any]:
    serial_number = uuid.uuid5(_SERIAL_NUMBERS, f"{subject.repo_id} {subject.commit}")
    return {
        "$schema": _SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial_number.urn,
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "agentjobs"}]},
            "component": {
                "type": "application",
                "bom-ref": subject.repo_id,
                "name": subject.full_name,
                "version": subject.commit,
            },
        },
    }


def _components(dependencies: Iterable[Dependency]) -> dict[_Key, _Component]:
    components: dict[_Key, _Component] = {}
    refs: set[str] = set()
    for at, row in enumerate(dependencies):
        key = (row.ecosystem, row.name, row.version)
        if key not in components:
            # Package URLs ignore case, so two names may share one; invalid names have none.
            purl = format_purl(*key)
            ref = purl if purl and purl not in refs else f"package-{at}"
            refs.add(ref)
            components[key] = _Component(ref, purl, row, "dev", [], {})
        component = components[key]
        # The project does not contain what only tests or examples use.
        scope = "dev" if row.fixture else row.scope
        component.scope = min(component.scope, scope, key=list(_SCOPES).index)
        component.positions.append(at)
        component.manifests[row.manifest] = None
        component.is_fixture = component.is_fixture and row.fixture
        component.imported = min(component.imported, row.imported, key=_IMPORTED.index)
    return components


def _component(component: _Component) -> dict[str, Any]:
    package = component.first
    document: dict[str, Any] = {
        "type": "library",
        "bom-ref": component.ref,
        "name": package.name,
        "scope": _SCOPES[component.scope],
    }
    if package.version is not None:
        document["version"] = package.version
    if component.purl:
        document["purl"] = component.purl
    properties: dict[str, str] = {"agentjobs:imported": component.imported}
    if component.is_fixture:
        properties["agentjobs:fixture"] = "true"
    document["properties"] = [{"name": name, "value": text} for name, text in properties.items()]
    document["evidence"] = {"occurrences": [{"location": path} for path in component.manifests]}
    return document


def _relations(
    root: str, dependencies: Sequence[Dependency], refs: Mapping[int, str]
) -> Iterator[dict[str, Any]]:
    """The repository depends on direct packages. Only one path to each package is known."""
    depends_on: dict[str, dict[str, None]] = {root: {}}
    parents = find_parents(dependencies)
    for at, row in enumerate(dependencies):
        ref = refs[at]
        if row.direct:
            depends_on[root][ref] = None
        elif at in parents:
            depends_on.setdefault(refs[parents[at]], {})[ref] = None
    for ref, others in depends_on.items():
        yield {"ref": ref, "dependsOn": [other for other in others if other != ref]}


def _vulnerabilities(
    findings: Iterable[FindingWithFix], refs: Mapping[_Key, str]
) -> Iterator[dict[str, Any]]:
    groups: dict[str, list[FindingWithFix]] = {}
    for finding in findings:
        # The index may be newer than the last scan.
        if (finding.ecosystem, finding.name, finding.version) in refs:
            groups.setdefault(finding.advisory_id, []).append(finding)
    for identifier in sorted(groups):
        group = groups[identifier]
        ordered = sorted(group, key=_package_key)
        affected = dict.fromkeys(refs[_package_key(finding)] for finding in ordered)
        advice = dict.fromkeys(map(_recommendation, ordered))
        yield {
            **_describe(group),
            "recommendation": " ".join(advice),
            "affects": [{"ref": ref} for ref in affected],
        }


def _describe(group: Sequence[FindingWithFix]) -> dict[str, Any]:
    first = group[0]
    urls = {record.id: record.url for record in first.advisories}
    source = {"name": "OSV", **({"url": url} if (url := urls.get(first.advisory_id)) else {})}
    aliases = sorted({alias for finding in group for alias in finding.aliases})
    document: dict[str, Any] = {
        "id": first.advisory_id,
        "source": source,
        "references": [{"id": alias, "source": {"name": "OSV"}} for alias in aliases],
        "ratings": [_rating(first)],
    }
    if first.summary:
        document["description"] = first.summary
    return document


def _rating(finding: FindingWithFix) -> dict[str, Any]:
    rating: dict[str, Any] = {
        "source": {"name": finding.severity_source},
        "severity": finding.severity,
        "method": _METHODS.get(finding.severity_source.partition(" of ")[0], "other"),
    }
    if finding.score is not None:
        rating["score"] = finding.score
    return rating


def _recommendation(finding: FindingWithFix) -> str:
    if finding.fix_version is None:
        return f"{finding.name} {finding.version}: {finding.fix_reason}"
    return f"Upgrade {finding.name} {finding.version} to {finding.fix_version}."


def _package_key(finding: FindingWithFix) -> tuple[str, str, str]:
    return (finding.ecosystem, finding.name, finding.version)
