"""Edits the version of one dependency in pom.xml, or the property that holds it, or overrides the
version that a published parent or BOM sets.

Edits the text at the positions that the XML parser reports, so that all other bytes stay.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.apply_fixes import one_by_one
from agentjobs_dependencies.fixes.download import DownloadFailed, download
from agentjobs_dependencies.fixes.markdown import code
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.formats.maven.xml_tree import Element, read_xml

_REFERENCE = re.compile(r"\$\{([^}\s]+)\}")
_INDENTATION = re.compile(r"\n([ \t]+)<(?!!)")
_ENCODING = "iso-8859-1"
_MAX_PARENTS = 8
_MAX_EDITS = 1_000
_TIMEOUT_SECONDS = 30
_MAX_POM_BYTES = 2 * 1024 * 1024
_NOT_FOUND = (404, 410)


class Pom:
    """`text` has one character for each byte, so that positions of elements are valid in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_bytes().decode(_ENCODING)
        self._parse()

    def _parse(self) -> None:
        root, _ = read_xml(self.text.encode(_ENCODING), _ENCODING)
        self.root = root or Element("project")

    def replace(self, span: tuple[int, int], value: str) -> None:
        text = value.encode().decode(_ENCODING)
        self.text = self.text[: span[0]] + text + self.text[span[1] :]
        self._parse()

    def write(self) -> None:
        self.path.write_bytes(self.text.encode(_ENCODING))


@dataclass(frozen=True, slots=True)
class _Dependency:
    group: str
    artifact: str
    version: str
    span: tuple[int, int]


@one_by_one
def apply(fix: Fix, root: Path) -> Outcome:
    poms = load_with_parents(root, fix.manifest)
    before = {pom.path: pom.text for pom in poms}
    if fix.managed_by:
        changes = list(_override(poms, fix))
    else:
        project = _load_project(fix, root)
        changes = [change for pom in poms for change in _edit(pom, poms, project, fix)]
    edited = [pom for pom in poms if pom.text != before[pom.path]]
    if not edited and not _is_managed(poms[-1], poms, fix):
        raise CannotFix(
            f"neither {fix.manifest} nor its parents in the repository set {fix.package} to "
            f"{fix.old}"
        )
    unproven = list(_ranges(poms, _load_project(fix, root), fix, root))
    for pom in edited:
        pom.write()
    others = [pom.path.relative_to(root).as_posix() for pom in edited if pom is not poms[0]]
    changes += [f"The version is set in {code(name)}." for name in others]
    return Outcome(fixed=[fix], changes=changes, unproven=unproven)


def _ranges(poms: list[Pom], project: list[Pom], fix: Fix, root: Path) -> Iterator[str]:
    """Which version Maven chooses from a range depends on all poms of the project."""
    paths = {pom.path for pom in poms}
    for pom in (*poms, *(file for file in project if file.path not in paths)):
        for dependency in _dependencies(pom, poms):
            version = resolve(dependency.version, poms)
            is_package = f"{dependency.group}:{dependency.artifact}" == fix.package
            if is_package and version.startswith(("[", "(")) and _exact(version) == version:
                name = pom.path.relative_to(root).as_posix()
                yield f"{code(name)} has the range {code(version)}: check it with `mvn verify`."


def _exact(version: str) -> str:
    """`[1.2]` allows only this version, and `1.2` prefers it."""
    is_exact = version[:1] == "[" and version[-1:] == "]" and "," not in version
    return version[1:-1].strip() if is_exact else version


def _edit(pom: Pom, poms: list[Pom], project: list[Pom], fix: Fix) -> Iterator[str]:
    position = 0
    for _ in range(_MAX_EDITS):
        # An edit changes positions, so the pom is read again after each.
        following = (
            dependency
            for dependency in _dependencies(pom, poms)
            if dependency.span[0] > position
            and f"{dependency.group}:{dependency.artifact}" == fix.package
        )
        dependency = next(following, None)
        if dependency is None:
            return
        position = dependency.span[0]
        reference = _REFERENCE.fullmatch(dependency.version)
        if _exact(dependency.version) == fix.old:
            pom.replace(dependency.span, dependency.version.replace(fix.old, fix.new))
        elif reference and _exact(property_value(reference[1], poms) or "") == fix.old:
            yield from _edit_property(reference[1], dependency, pom, poms, project, fix)


def _edit_property(
    name: str, dependency: _Dependency, pom: Pom, poms: list[Pom], project: list[Pom], fix: Fix
) -> Iterator[str]:
    """Edit the property if only dependencies of one group use it, in all poms of the project, and
    the registry has the new version of each; otherwise the dependency gets a version."""
    everywhere = [*poms, *(file for file in project if file.path not in {p.path for p in poms})]
    users = [
        other
        for candidate in everywhere
        for other in _dependencies(candidate, poms)
        if f"${{{name}}}" in other.version
    ]
    elements = (element for candidate in everywhere for element in candidate.root.walk())
    uses = sum(element.text.count(f"${{{name}}}") for element in elements)
    artifacts = {other.artifact for other in users} - {dependency.artifact}
    if {other.group for other in users} != {dependency.group} or uses != len(users):
        reason = f"is used for more than {code(dependency.group)}"
    elif missing := [
        artifact for artifact in sorted(artifacts) if not _is_published(artifact, fix)
    ]:
        reason = f"is used for {code(missing[0])} too, which has no version {fix.new}"
    else:
        reason = ""
    if reason:
        pom.replace(dependency.span, fix.new)
        yield f"The property {code(name)} {reason}: the dependency now has its own version."
        return
    for candidate in poms:
        if element := _find_property(candidate, name):
            value = candidate.text[slice(*element.span)]
            candidate.replace(element.span, value.replace(fix.old, fix.new))
            group = code(dependency.group)
            yield f"The property {code(name)} has the new version, for all of {group}."
            return


def _is_published(artifact: str, fix: Fix) -> bool:
    """Whether the registry has this artifact of the package's group in the new version. A registry
    that does not answer does not prevent the fix of the group."""
    directory = fix.package.partition(":")[0].replace(".", "/")
    url = f"{fix.registry.rstrip('/')}/{directory}/{artifact}/{fix.new}/{artifact}-{fix.new}.pom"
    try:
        download(url, _MAX_POM_BYTES, _TIMEOUT_SECONDS)
    except DownloadFailed as error:
        return error.status not in _NOT_FOUND
    return True


def _load_project(fix: Fix, root: Path) -> list[Pom]:
    """All poms that are built together with the manifest."""
    poms = []
    for name in sorted({name for group in fix.installed_together for name in group}):
        with suppress(CannotFix):
            poms.append(Pom(tree.resolve_file(root, name)))
    return poms


def _override(poms: list[Pom], fix: Fix) -> Iterator[str]:
    """Only the published pom has the old version, or the property that holds it."""
    source = code(fix.managed_by)
    for dependency in reversed(list(_dependencies(poms[0], poms))):
        is_package = f"{dependency.group}:{dependency.artifact}" == fix.package
        if is_package and _REFERENCE.search(dependency.version):
            poms[0].replace(dependency.span, fix.new)
            yield f"{source} defines the property: the dependency now has its own version."
            return
    # Applies to all modules, because each may have a fix.
    top = poms[-1]
    if not _is_managed(top, poms, fix):
        top.replace(*_managed_entry(top, fix))
        yield (
            f"{source} sets the old version, and `dependencyManagement` overrides it: remove the "
            "entry when you upgrade to one that has this version or a later one."
        )


def _is_managed(pom: Pom, poms: list[Pom], fix: Fix) -> bool:
    """An earlier fix of another module may have overridden it."""
    return bool(fix.managed_by) and any(
        f"{dependency.group}:{dependency.artifact}" == fix.package and dependency.version == fix.new
        for dependency in _dependencies(pom, poms)
    )


def _managed_entry(pom: Pom, fix: Fix) -> tuple[tuple[int, int], str]:
    """An empty span, and the text to insert there."""
    indentation = match[1] if (match := _INDENTATION.search(pom.text)) else "  "
    group, _, artifact = fix.package.partition(":")
    lines = [
        (3, "<dependency>"),
        (4, f"<groupId>{group}</groupId>"),
        (4, f"<artifactId>{artifact}</artifactId>"),
        (4, f"<version>{fix.new}</version>"),
        (3, "</dependency>"),
    ]
    section = next(iter(pom.root.each("dependencyManagement", "dependencies")), None)
    if not pom.root.is_complete:
        raise CannotFix(f"{pom.path.name} is not a complete project")
    if section is None:
        opening = [(1, "<dependencyManagement>"), (2, "<dependencies>")]
        closing = [(2, "</dependencies>"), (1, "</dependencyManagement>")]
        lines = [*opening, *lines, *closing]
    text = [f"{indentation * depth}{line}" for depth, line in lines]
    line_end = "\r\n" if "\r\n" in pom.text else "\n"
    if section is not None:
        return (section.span[0], section.span[0]), line_end.join(["", *text])
    own = pom.root.first("dependencies")
    before = pom.text[: own.start if own else pom.root.span[1]]
    position = len(before.rstrip(" \t"))
    return (position, position), line_end.join([*text, ""])


def _dependencies(pom: Pom, poms: list[Pom]) -> Iterator[_Dependency]:
    for element in pom.root.find_all("dependency"):
        version = element.first("version")
        group, artifact = element.value("groupId"), element.value("artifactId")
        if version and version.is_complete and group and artifact:
            written = version.text.strip()
            start = pom.text.find(written, *version.span)
            # Another spelling, such as CDATA, cannot be edited.
            if written and start >= 0:
                span = (start, start + len(written))
                yield _Dependency(resolve(group, poms), resolve(artifact, poms), written, span)


def resolve(text: str, poms: list[Pom]) -> str:
    return _REFERENCE.sub(lambda match: property_value(match[1], poms) or match[0], text)


def property_value(name: str, poms: list[Pom]) -> str | None:
    for pom in poms:
        if element := _find_property(pom, name):
            return element.text.strip()
    if name in ("project.groupId", "project.version"):
        own = name.removeprefix("project.")
        parent = poms[0].root.first("parent")
        return poms[0].root.value(own) or (parent.value(own) if parent else "") or None
    return None


def _find_property(pom: Pom, name: str) -> Element | None:
    elements = (properties.first(name) for properties in pom.root.find_all("properties"))
    return next((element for element in elements if element and element.is_complete), None)


def load_with_parents(root: Path, manifest: str) -> list[Pom]:
    """The file and those it inherits from, as far as they are in this repository."""
    poms = [Pom(tree.resolve_file(root, manifest))]
    while len(poms) < _MAX_PARENTS and (parent := poms[-1].root.first("parent")):
        declared = parent.first("relativePath")
        relative = "../pom.xml" if declared is None else declared.text.strip()
        path = poms[-1].path.parent / relative
        local_path = tree.find_file(root, path / "pom.xml" if path.is_dir() else path)
        if not relative or local_path is None or any(pom.path == local_path for pom in poms):
            break
        poms.append(Pom(local_path))
    return poms
