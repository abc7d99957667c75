"""A software bill of materials of one commit, in CycloneDX 1.6: packages, relations, findings.

Written by hand, a line for each thing: the format's own library takes minutes for what a large
repository depends on. Without clock or chance: the same index and findings are the same document.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentjobs.advisories.findings import FindingView
from agentjobs.inventory.dependencies import DependencyView, find_parents
from agentjobs.inventory.graph.text import json_list, json_text

_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_SERIAL_NUMBERS = uuid.UUID("f394c5a6-7cf4-489d-a1fa-22895c6ba2f9")
# The strongest first: what runs in production counts as that, whoever else wants it.
_SCOPES = {"runtime": "required", "optional": "optional", "dev": "excluded"}
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
    subject: Subject, dependencies: Sequence[DependencyView], findings: Iterable[FindingView]
) -> Iterator[str]:
    """`findings` have the worst first."""
    components = _components(dependencies)
    refs = {at: one.ref for one in components.values() for at in one.positions}
    yield "{"
    for name, value in _head(subject).items():
        yield f"{json_text(name)}: {json_text(value)},\n"
    yield from json_list("components", map(_component, components.values()))
    yield ",\n"
    yield from json_list("dependencies", _relations(subject.repo_id, dependencies, refs))
    yield ",\n"
    by_key = {key: one.ref for key, one in components.items()}
    yield from json_list("vulnerabilities", _vulnerabilities(findings, by_key))
    yield "}\n"


class _Component(msgspec.Struct):
    """A package in one version, however many manifests lead to it."""

    ref: str
    first: DependencyView
    scope: str
    positions: list[int]
    manifests: dict[str, None]


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


def _components(dependencies: Iterable[DependencyView]) -> dict[_Key, _Component]:
    found: dict[_Key, _Component] = {}
    refs: set[str] = set()
    for one in dependencies:
        key = (one.ecosystem, one.name, one.version)
        if key not in found:
            # Two names may share a package URL, which folds case, and strange ones have none.
            unique = one.purl and one.purl not in refs
            ref = one.purl if unique else f"package-{one.position}"
            refs.add(ref)
            found[key] = _Component(ref, one, one.scope, [], {})
        component = found[key]
        component.scope = min(component.scope, one.scope, key=list(_SCOPES).index)
        component.positions.append(one.position)
        component.manifests[one.manifest] = None
    return found


def _component(component: _Component) -> dict[str, Any]:
    package = component.first
    described: dict[str, Any] = {
        "type": "library",
        "bom-ref": component.ref,
        "name": package.name,
        "scope": _SCOPES[component.scope],
    }
    if package.version is not None:
        described["version"] = package.version
    if package.purl:
        described["purl"] = package.purl
    described["evidence"] = {"occurrences": [{"location": path} for path in component.manifests]}
    return described


def _relations(
    root: str, dependencies: Sequence[DependencyView], refs: Mapping[int, str]
) -> Iterator[dict[str, Any]]:
    """The repository asks for what is direct. Only what is known: one way to each package."""
    asks_for: dict[str, dict[str, None]] = {root: {}}
    parents = find_parents(dependencies)
    for one in dependencies:
        ref = refs[one.position]
        if one.direct:
            asks_for[root][ref] = None
        elif one.position in parents:
            asks_for.setdefault(refs[parents[one.position]], {})[ref] = None
    for ref, others in asks_for.items():
        yield {"ref": ref, "dependsOn": [other for other in others if other != ref]}


def _vulnerabilities(
    findings: Iterable[FindingView], refs: Mapping[_Key, str]
) -> Iterator[dict[str, Any]]:
    groups: dict[str, list[FindingView]] = {}
    for finding in findings:
        # The index may be newer than the last scan.
        if (finding.ecosystem, finding.name, finding.version) in refs:
            groups.setdefault(finding.advisory_id, []).append(finding)
    for identifier in sorted(groups):
        group = groups[identifier]
        in_order = sorted(group, key=_package_of)
        affected = dict.fromkeys(refs[_package_of(finding)] for finding in in_order)
        advice = dict.fromkeys(map(_recommendation, in_order))
        yield {
            **_described(group),
            "recommendation": " ".join(advice),
            "affects": [{"ref": ref} for ref in affected],
        }


def _described(group: Sequence[FindingView]) -> dict[str, Any]:
    one = group[0]
    urls = {found.id: found.url for found in one.advisories}
    source = {"name": "OSV", **({"url": url} if (url := urls.get(one.advisory_id)) else {})}
    aliases = sorted({alias for finding in group for alias in finding.aliases})
    described: dict[str, Any] = {
        "id": one.advisory_id,
        "source": source,
        "references": [{"id": alias, "source": {"name": "OSV"}} for alias in aliases],
        "ratings": [_rating(one)],
    }
    if one.summary:
        described["description"] = one.summary
    return described


def _rating(finding: FindingView) -> dict[str, Any]:
    rating: dict[str, Any] = {
        "source": {"name": finding.severity_source},
        "severity": finding.severity,
        "method": _METHODS.get(finding.severity_source.partition(" of ")[0], "other"),
    }
    if finding.score is not None:
        rating["score"] = finding.score
    return rating


def _recommendation(finding: FindingView) -> str:
    if finding.fix_version is None:
        return f"{finding.name} {finding.version}: {finding.fix_reason}"
    return f"Upgrade {finding.name} {finding.version} to {finding.fix_version}."


def _package_of(finding: FindingView) -> tuple[str, str, str]:
    return (finding.ecosystem, finding.name, finding.version)
