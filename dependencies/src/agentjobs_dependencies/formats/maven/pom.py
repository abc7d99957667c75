"""Reads a single pom.xml; placeholders and inherited values stay unresolved.

`complete` resolves them from the other pom.xml files of the repository.
"""

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.maven.inheritance import (
    IMPORT,
    MANAGED,
    MANAGED_SCOPE,
    PARENT,
    PARENT_PATH,
    PARENT_VERSION,
    PROPERTY,
    VERSION,
    complete,
    exact_version,
)
from agentjobs_dependencies.formats.maven.xml_tree import Element, read_xml
from agentjobs_dependencies.formats.text import Warnings
from agentjobs_dependencies.model import ParsedManifest, Requirement, Scope

__all__ = ["complete", "read_pom"]

ECOSYSTEM = "Maven"

# `provided` dependencies come with the container, in its own version.
_SCOPES: dict[str, Scope] = {"test": "dev", "provided": "optional"}


def read_pom(content: bytes) -> ParsedManifest:
    root, reasons = read_xml(content)
    warnings = Warnings(tuple(reasons))
    if root is None or root.name != "project":
        warnings.add("not a Maven project: it has no <project> element")
        return ParsedManifest(ECOSYSTEM, warnings=warnings.all())
    bodies, inactive = [root], list[Element]()
    for profile in root.each("profiles", "profile"):
        activation = profile.first("activation")
        is_active = activation is not None and activation.value("activeByDefault") == "true"
        (bodies if is_active else inactive).append(profile)
    requirements = [r for body in bodies for r in _requirements(body, warnings)]
    requirements += [_as_optional(r) for body in inactive for r in _requirements(body, warnings)]
    return ParsedManifest(
        ECOSYSTEM,
        project=_project(root),
        requirements=limit_requirements(requirements, warnings),
        members=tuple(
            m.text.strip() for b in bodies + inactive for m in b.each("modules", "module")
        ),
        notes=_notes(root, bodies),
        warnings=warnings.all(),
    )


def _project(root: Element) -> str:
    parent = root.first("parent")
    group = root.value("groupId") or (parent.value("groupId") if parent else "")
    return f"{group}:{root.value('artifactId')}"


def _requirements(body: Element, warnings: Warnings) -> list[Requirement]:
    requirements = []
    for dependency in body.each("dependencies", "dependency"):
        name, version = _name(dependency), dependency.value("version")
        if name is None:
            warnings.add("a <dependency> without groupId or artifactId is left out")
            continue
        scope = _SCOPES.get(dependency.value("scope"), "runtime")
        if scope == "runtime" and dependency.value("optional") == "true":
            scope = "optional"
        requirements.append(Requirement(name, version, exact_version(version), scope))
    return requirements


def _as_optional(requirement: Requirement) -> Requirement:
    """Marks a requirement of a profile that is not active by default as optional."""
    if requirement.scope == "dev":
        return requirement
    name, specifier, version = requirement.name, requirement.specifier, requirement.version
    return Requirement(name, specifier, version, "optional")


def _notes(root: Element, bodies: list[Element]) -> dict[str, str]:
    notes = {VERSION: root.value("version")}
    parent = root.first("parent")
    if parent is not None:
        notes[PARENT] = _name(parent) or ""
        notes[PARENT_VERSION] = parent.value("version")
        # An empty element means that the parent is not in this repository.
        is_default = parent.first("relativePath") is None
        notes[PARENT_PATH] = "../pom.xml" if is_default else parent.value("relativePath")
        notes[VERSION] = notes[VERSION] or notes[PARENT_VERSION]
    for body in bodies:
        for properties in body.each("properties"):
            for item in properties.children:
                notes[PROPERTY + item.name] = item.text.strip()
        _add_managed(notes, body)
    return notes


def _add_managed(notes: dict[str, str], body: Element) -> None:
    for managed in body.each("dependencyManagement", "dependencies", "dependency"):
        name, scope = _name(managed), managed.value("scope")
        if name is None:
            continue
        if scope == "import":
            notes[IMPORT + name] = managed.value("version")
            continue
        # Entries for other types and classifiers of the artifact follow, with the same version.
        notes.setdefault(MANAGED + name, managed.value("version"))
        if scope in _SCOPES:
            notes.setdefault(MANAGED_SCOPE + name, _SCOPES[scope])


def _name(element: Element) -> str | None:
    group, artifact = element.value("groupId"), element.value("artifactId")
    return f"{group}:{artifact}" if group and artifact else None
