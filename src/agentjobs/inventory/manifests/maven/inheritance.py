"""Completes what each pom.xml says from its parents, its properties and the versions they manage.

Knows only the poms of one repository: what others decide (a published parent, a BOM) stays open.
"""

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.text import Warnings
from agentjobs.inventory.model import ParsedManifest, Requirement, Scope

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
_LONGEST_TEXT = 200
_MAX_ROUNDS = 20
_MAX_PARENTS = 20
_MAX_SOURCES = 100
# Of all poms together, twice what the largest repositories have.
_MAX_REQUIREMENTS = 200_000


class _Managed(msgspec.Struct, frozen=True):
    """`path` is the pom it stands in; `context` the one whose properties it goes by."""

    version: str
    scope: str
    path: str
    context: str = ""


def complete(facts: Mapping[str, ParsedManifest]) -> Mapping[str, ParsedManifest]:
    """The same facts with versions filled in. A requirement whose version is managed moves to the
    pom that manages it: that is the file to edit, once for all modules that inherit it."""
    poms = {path: facts[path] for path in sorted(facts) if facts[path].ecosystem == "Maven"}
    family = _Family(poms)
    requirements: dict[str, list[Requirement]] = {path: [] for path in poms}
    warnings = {path: Warnings(pom.warnings) for path, pom in poms.items()}
    left = _MAX_REQUIREMENTS
    for path, pom in poms.items():
        if len(pom.requirements) > left:
            warnings[path].add(f"more than {_MAX_REQUIREMENTS} requirements in all pom.xml files")
        taken = pom.requirements[:left]
        left -= len(taken)
        for written in taken:
            completed, where = family.completed(path, written)
            if "${" in completed.name:
                warnings[path].add(f"no pom.xml here says what {completed.name} stands for")
            elif not family.is_module(completed):
                requirements[where].append(completed)
    done = {
        path: msgspec.structs.replace(
            pom,
            requirements=within_bounds(_merged(requirements[path]), warnings[path]),
            warnings=warnings[path].all(),
        )
        for path, pom in poms.items()
    }
    return {path: done.get(path, each) for path, each in facts.items()}


def exact_version(text: str) -> str | None:
    """The one version that a version element admits; None for ranges and open placeholders."""
    if text[:1] == "[" and text[-1:] == "]" and "," not in text:
        text = text[1:-1].strip()
    if not text or len(text) > _LONGEST_TEXT or text in {"LATEST", "RELEASE"}:
        return None
    return None if any(c in "[](),${}" or c.isspace() for c in text) else text


def _merged(requirements: Iterable[Requirement]) -> Iterable[Requirement]:
    """One for each name and version, in the widest scope that any module asks for."""
    width: list[Scope] = ["runtime", "optional", "dev"]
    merged: dict[tuple[str, str | None], Requirement] = {}
    for each in requirements:
        known = merged.setdefault((each.name, each.version), each)
        if width.index(each.scope) < width.index(known.scope):
            merged[each.name, each.version] = each
    return merged.values()


class _Family:
    """The poms of a repository and how they descend from each other."""

    def __init__(self, poms: Mapping[str, ParsedManifest]) -> None:
        self._poms = poms
        self._paths: dict[str, str] = {}
        for path, pom in poms.items():
            self._paths.setdefault(pom.project, path)
        self._lineages: dict[str, list[str]] = {}
        self._managed: dict[str, dict[str, _Managed]] = {}
        self._imported: dict[str, list[str]] = {}

    def completed(self, path: str, written: Requirement) -> tuple[Requirement, str]:
        """The requirement with its version, and the pom whose <dependency> gives it that."""
        name = self._filled(path, written.name)
        scope, text, where = written.scope, written.specifier, path
        managed = self._find_managed(path, name)
        if managed is not None and scope == "runtime" and managed.scope:
            scope = cast("Scope", managed.scope)
        if managed is None or text:
            version = exact_version(self._filled(path, text))
        else:
            text = managed.version
            version = exact_version(self._filled(managed.context, text))
            # A module that overrides the property has a version of its own.
            if version is not None and version == exact_version(self._filled(managed.path, text)):
                where = managed.path
        return Requirement(name, text, version, scope), where

    def is_module(self, requirement: Requirement) -> bool:
        """Is it the repository's own code, which nobody else publishes?"""
        path = self._paths.get(requirement.name)
        if path is None:
            return False
        own = self._filled(path, self._poms[path].notes.get(VERSION, ""))
        return requirement.version in {None, own}

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
        notes = self._poms[path].notes
        name, hint = notes.get(PARENT), notes.get(PARENT_PATH)
        if not name:
            return None
        candidates = [self._paths.get(name, "")]
        if hint:
            beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), hint))
            candidates[:0] = [beside, posixpath.join(beside, "pom.xml")]
        wanted = notes.get(PARENT_VERSION, "")
        return next((each for each in candidates if self._answers(each, name, wanted)), None)

    def _answers(self, path: str, name: str, wanted: str) -> bool:
        pom = self._poms.get(path)
        if pom is None or pom.project != name:
            return False
        own = pom.notes.get(VERSION, "")
        return own == wanted or not own or "${" in own + wanted

    def _find_managed(self, path: str, name: str) -> _Managed | None:
        """What the pom, its parents or the BOMs they import say of a package, nearest first."""
        contexts, asked = [path], set[str]()
        for context in contexts:  # Grows by the BOMs met on the way.
            for source in self._lineage(context) if len(asked) < _MAX_SOURCES else ():
                # Asked as another's ancestor: then its own ancestors were asked as well.
                if source in asked:
                    break
                asked.add(source)
                entry = self._managed_by(source).get(name)
                if entry is not None:
                    return msgspec.structs.replace(entry, context=context)
                contexts += self._imported_by(source)
        return None

    def _managed_by(self, path: str) -> dict[str, _Managed]:
        managed = self._managed.get(path)
        if managed is None:
            notes = self._poms[path].notes
            managed = {
                self._filled(path, name): _Managed(
                    notes[MANAGED + name], notes.get(MANAGED_SCOPE + name, ""), path
                )
                for name in _names(notes, MANAGED)
            }
            self._managed[path] = managed
        return managed

    def _imported_by(self, path: str) -> list[str]:
        imported = self._imported.get(path)
        if imported is None:
            names = _names(self._poms[path].notes, IMPORT)[:_MAX_SOURCES]
            filled = [self._filled(path, name) for name in names]
            imported = [self._paths[name] for name in filled if name in self._paths]
            self._imported[path] = imported
        return imported

    def _filled(self, context: str, text: str) -> str:
        """The text with properties put in, as far as they are known, as `context` sees them."""
        for _ in range(_MAX_ROUNDS):
            if "${" not in text or len(text) > _LONGEST_TEXT:
                break
            before, text = text, _PLACEHOLDER.sub(lambda m: self._inserted(context, m), text)
            if text == before:
                break
        return text

    def _inserted(self, context: str, placeholder: re.Match[str]) -> str:
        value = self._property(context, placeholder[1])
        return placeholder[0] if value is None else value[: _LONGEST_TEXT + 1]

    def _property(self, context: str, name: str) -> str | None:
        own = _built_in(self._poms[context], name.removeprefix("project.").removeprefix("pom."))
        if own is not None:
            return own
        for path in self._lineage(context):
            value = self._poms[path].notes.get(PROPERTY + name)
            if value is not None:
                return value
        return None


def _built_in(pom: ParsedManifest, name: str) -> str | None:
    """What every pom can say of itself without defining it."""
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
