"""Completes each pom.xml from its parents, properties and managed versions.

Parents and BOMs are poms of the repository, or published ones as far as they are known.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.maven.published import LoadPom, PublishedPoms, parse_coordinate
from agentjobs_dependencies.formats.text import Warnings
from agentjobs_dependencies.model import ParsedManifest, Requirement, Scope

# Keys of `ParsedManifest.notes`; those that end in a colon are followed by a name.
VERSION = "version"
PARENT = "parent"
PARENT_VERSION = "parent.version"
PARENT_PATH = "parent.path"
PROPERTY = "property:"
MANAGED = "managed:"
MANAGED_SCOPE = "managed scope:"
IMPORT = "import:"

_PLACEHOLDER = re.compile(r"\$\{([^${}]{1,200})\}")
_MAX_TEXT = 200
_MAX_ROUNDS = 20
_MAX_PARENTS = 20
_MAX_SOURCES = 100
# Limit for all poms together: twice as many as the largest repositories have.
_MAX_REQUIREMENTS = 200_000


class _Managed(NamedTuple):
    """`path` is the pom that declares it; `context` the pom whose properties apply."""

    version: str
    scope: str
    path: str
    context: str = ""


def complete(
    manifests: Mapping[str, ParsedManifest], published: PublishedPoms | None = None
) -> Mapping[str, ParsedManifest]:
    """Manifests with resolved versions. A requirement whose version is managed moves to the pom
    that manages it, because that is the file to edit for all modules that inherit it. One that a
    published pom manages stays where it is."""
    poms = {
        path: manifests[path] for path in sorted(manifests) if manifests[path].ecosystem == "Maven"
    }
    repository = PomTree(poms, published or PublishedPoms())
    requirements: dict[str, list[Requirement]] = {path: [] for path in poms}
    warnings = {path: Warnings(pom.warnings) for path, pom in poms.items()}
    remaining = _MAX_REQUIREMENTS
    for path, pom in poms.items():
        if len(pom.requirements) > remaining:
            warnings[path].add(f"more than {_MAX_REQUIREMENTS} requirements in all pom.xml files")
        accepted = pom.requirements[:remaining]
        remaining -= len(accepted)
        inherited = repository.published_requirements(path)
        is_resolved = True
        for written, source in [*((requirement, path) for requirement in accepted), *inherited]:
            completed, where = repository.complete_requirement(path, written)
            if source != path:
                managed_by = completed.managed_by or parse_coordinate(source)
                completed = completed._replace(managed_by=managed_by)
            if "${" in completed.name:
                warnings[path].add(f"no pom.xml of the repository defines {completed.name}")
            elif not repository.is_module(completed):
                requirements[where].append(completed)
                is_resolved = is_resolved and completed.version is not None
        for name in () if is_resolved else repository.unknown_poms(path):
            warnings[path].add(
                f"{name} is neither in the repository nor known from the registry: versions that"
                " it sets are unknown"
            )
    completed_poms = {
        path: pom._replace(
            requirements=limit_requirements(_merge(requirements[path]), warnings[path]),
            warnings=warnings[path].all(),
        )
        for path, pom in poms.items()
    }
    return {path: completed_poms.get(path, manifest) for path, manifest in manifests.items()}


def find_missing_poms(coordinates: Iterable[str], load: LoadPom) -> list[str]:
    """The parents and BOMs of published poms that `load` does not have."""
    published = PublishedPoms(load)
    tree = PomTree({}, published)
    for coordinate in coordinates:
        name, _, version = coordinate.rpartition(":")
        if key := published.find(name, version):
            tree.unknown_poms(key)
    return published.missing


def exact_version(text: str) -> str | None:
    """The only version that a version element allows; None for ranges and placeholders."""
    if text[:1] == "[" and text[-1:] == "]" and "," not in text:
        text = text[1:-1].strip()
    if not text or len(text) > _MAX_TEXT or text in {"LATEST", "RELEASE"}:
        return None
    return None if any(c in "[](),${}" or c.isspace() for c in text) else text


def _merge(requirements: Iterable[Requirement]) -> Iterable[Requirement]:
    """One for each name and version, in the widest scope of any module."""
    width: list[Scope] = ["runtime", "optional", "dev"]
    merged: dict[tuple[str, str | None], Requirement] = {}
    for requirement in requirements:
        known = merged.setdefault((requirement.name, requirement.version), requirement)
        if width.index(requirement.scope) < width.index(known.scope):
            merged[requirement.name, requirement.version] = requirement
    return merged.values()


class PomTree:
    """The poms of a repository and their inheritance. Published poms have keys instead of paths."""

    def __init__(self, poms: Mapping[str, ParsedManifest], published: PublishedPoms) -> None:
        self._own = poms
        self._published = published
        self._paths: dict[str, str] = {}
        for path, pom in poms.items():
            self._paths.setdefault(pom.project, path)
        self._lineages: dict[str, list[str]] = {}
        self._managed: dict[str, dict[str, _Managed]] = {}
        self._imported: dict[tuple[str, str], list[str]] = {}
        self._unknown: dict[str, dict[str, None]] = {}

    def unknown_poms(self, path: str) -> list[str]:
        """The parents and BOMs of a pom that are neither in the repository nor published."""
        sources = [source for _, source in self._sources(path)]
        return list({name: None for source in sources for name in self._unknown.get(source, ())})

    def published_requirements(self, path: str) -> list[tuple[Requirement, str]]:
        """Requirements that the pom inherits from published parents; its own modules inherit them
        from it."""
        lineage = self._lineage(path)
        if len(lineage) < 2 or not parse_coordinate(lineage[1]):
            return []
        return [
            (requirement, source)
            for source in lineage[1:]
            for requirement in self._pom(source).requirements
        ]

    def complete_requirement(self, path: str, written: Requirement) -> tuple[Requirement, str]:
        """The requirement with its version, and the pom whose <dependency> sets the version."""
        name = self._resolve(path, written.name)
        scope, text, where = written.scope, written.specifier, path
        managed = self._find_managed(path, name)
        if managed is not None and scope == "runtime" and managed.scope:
            scope = cast("Scope", managed.scope)
        if managed is None or text:
            version = exact_version(self._resolve(path, text))
            managed_by = self._published_property(path, text)
        elif managed_by := parse_coordinate(managed.path):
            version = exact_version(self._resolve(managed.context, managed.version))
        else:
            text = managed.version
            version = exact_version(self._resolve(managed.context, text))
            managed_by = self._published_property(managed.context, text)
            # A module that overrides the property has another version.
            if version is not None and version == exact_version(self._resolve(managed.path, text)):
                where = managed.path
        return Requirement(name, text, version, scope, managed_by), where

    def is_module(self, requirement: Requirement) -> bool:
        """True if the requirement is a module of the repository."""
        path = self._paths.get(requirement.name)
        if path is None:
            return False
        own = self._resolve(path, self._pom(path).notes.get(VERSION, ""))
        return requirement.version in {None, own}

    def _pom(self, path: str) -> ParsedManifest:
        return self._own.get(path) or self._published.get(path) or ParsedManifest("Maven")

    def _lineage(self, path: str) -> list[str]:
        """The pom, its parent, and so on."""
        lineage = self._lineages.get(path)
        if lineage is None:
            lineage = [path]
            while len(lineage) < _MAX_PARENTS:
                parent = self._parent(lineage[-1])
                if parent is None or parent in lineage:
                    break
                lineage.append(parent)
            self._lineages[path] = lineage
        return lineage

    def _parent(self, path: str) -> str | None:
        notes = self._pom(path).notes
        name, relative_path = notes.get(PARENT), notes.get(PARENT_PATH)
        version = notes.get(PARENT_VERSION, "")
        if not name:
            return None
        if parse_coordinate(path):
            return self._find_published(path, name, version)
        candidates = [self._paths.get(name, "")]
        if relative_path:
            expected = posixpath.normpath(posixpath.join(posixpath.dirname(path), relative_path))
            candidates[:0] = [expected, posixpath.join(expected, "pom.xml")]
        own = next((pom for pom in candidates if self._is_pom_for(pom, name, version)), None)
        return own or self._find_published(path, name, version)

    def _find_published(self, path: str, name: str, version: str) -> str | None:
        key = self._published.find(name, version)
        if key is None and "${" not in name:
            self._unknown.setdefault(path, {})[f"{name}:{version}"] = None
        return key

    def _is_pom_for(self, path: str, name: str, version: str) -> bool:
        pom = self._own.get(path)
        if pom is None or pom.project != name:
            return False
        own = pom.notes.get(VERSION, "")
        return own == version or not own or "${" in own + version

    def _find_managed(self, path: str, name: str) -> _Managed | None:
        """The managed entry of a package in the pom, its parents or BOMs, nearest first."""
        for context, source in self._sources(path):
            entry = self._managed_by(source).get(name)
            if entry is not None:
                return entry._replace(context=context)
        return None

    def _sources(self, path: str) -> Iterator[tuple[str, str]]:
        """The pom, its parents and BOMs, nearest first, each with the pom that inherits it."""
        contexts, visited = [path], set[str]()
        for context in contexts:  # Grows by the imported BOMs.
            for source in self._lineage(context) if len(visited) < _MAX_SOURCES else ():
                # Already visited as an ancestor, and so were its own ancestors.
                if source in visited:
                    break
                visited.add(source)
                yield context, source
                contexts += self._imported_by(context, source)

    def _managed_by(self, path: str) -> dict[str, _Managed]:
        managed = self._managed.get(path)
        if managed is None:
            notes = self._pom(path).notes
            managed = {
                self._resolve(path, name): _Managed(
                    notes[MANAGED + name], notes.get(MANAGED_SCOPE + name, ""), path
                )
                for name in _names(notes, MANAGED)
            }
            self._managed[path] = managed
        return managed

    def _imported_by(self, context: str, path: str) -> list[str]:
        """The BOMs that a pom imports; `context` may override properties in their versions."""
        imported = self._imported.get((context, path))
        if imported is None:
            notes = self._pom(path).notes
            managed = (
                self._find_bom(context, path, name, notes[IMPORT + name])
                for name in _names(notes, IMPORT)[:_MAX_SOURCES]
            )
            imported = self._imported[context, path] = [bom for bom in managed if bom is not None]
        return imported

    def _find_bom(self, context: str, path: str, name: str, version: str) -> str | None:
        resolved = self._resolve(path, name)
        if resolved in self._paths and not parse_coordinate(path):
            return self._paths[resolved]
        return self._find_published(path, resolved, self._resolve(context, version))

    def _published_property(self, context: str, text: str) -> str:
        """The coordinates of the published pom that defines a property of the text."""
        for name in _PLACEHOLDER.findall(text):
            key = PROPERTY + name
            source = next((p for p in self._lineage(context) if key in self._pom(p).notes), "")
            if coordinate := parse_coordinate(source):
                return coordinate
        return ""

    def _resolve(self, context: str, text: str) -> str:
        """The text with known properties inserted, as seen from `context`."""
        for _ in range(_MAX_ROUNDS):
            if "${" not in text or len(text) > _MAX_TEXT:
                break
            before, text = text, _PLACEHOLDER.sub(lambda m: self._property_value(context, m), text)
            if text == before:
                break
        return text

    def _property_value(self, context: str, placeholder: re.Match[str]) -> str:
        value = self._property(context, placeholder[1])
        return placeholder[0] if value is None else value[: _MAX_TEXT + 1]

    def _property(self, context: str, name: str) -> str | None:
        own = _built_in(self._pom(context), name.removeprefix("project.").removeprefix("pom."))
        if own is not None:
            return own
        for path in self._lineage(context):
            value = self._pom(path).notes.get(PROPERTY + name)
            if value is not None:
                return value
        return None


def _built_in(pom: ParsedManifest, name: str) -> str | None:
    """Properties that every pom has without defining them."""
    match name:
        case "version":
            return pom.notes.get(VERSION)
        case "groupId":
            return pom.project.partition(":")[0]
        case "artifactId":
            return pom.project.partition(":")[2]
        case "parent.version":
            return pom.notes.get(PARENT_VERSION)
        case "parent.groupId":
            return pom.notes.get(PARENT, "").partition(":")[0] or None
    return None


def _names(notes: Mapping[str, str], prefix: str) -> list[str]:
    return [key.removeprefix(prefix) for key in notes if key.startswith(prefix)]
