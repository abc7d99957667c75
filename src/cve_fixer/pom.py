"""Edits the version of one dependency in pom.xml, or the property that holds it, or overrides the
version that a published parent or BOM sets.

Works on the text, because an XML parser would not preserve its bytes.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cve_fixer import tree
from cve_fixer.apply_fixes import one_by_one
from cve_fixer.download import DownloadFailed, download
from cve_fixer.markdown import code
from cve_fixer.model import CannotFix, Fix, Outcome

_HIDDEN = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<exclusions>.*?</exclusions>", re.DOTALL)
_DEPENDENCY = re.compile(r"<dependency>(.*?)</dependency>", re.DOTALL)
_PROPERTIES = re.compile(r"<properties>(.*?)</properties>", re.DOTALL)
_PARENT = re.compile(r"<parent>(.*?)</parent>", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([^}\s]+)\}")
# Their dependencies are not those of the project.
_NESTED = re.compile(r"<(build|profiles|reporting)>.*?</\1>", re.DOTALL)
_MANAGED = re.compile(r"<dependencyManagement>\s*<dependencies>")
_INDENTATION = re.compile(r"\n([ \t]+)<")
_MAX_PARENTS = 8
_TIMEOUT_SECONDS = 30
_MAX_POM_BYTES = 2 * 1024 * 1024
_NOT_FOUND = (404, 410)


@dataclass(slots=True)
class Pom:
    """`visible` is `text` with comments, CDATA and exclusions replaced by blanks."""

    path: Path
    text: str
    visible: str = field(init=False)

    def __post_init__(self) -> None:
        self.visible = _HIDDEN.sub(lambda match: " " * len(match[0]), self.text)

    def replace(self, span: tuple[int, int], value: str) -> None:
        self.text = self.text[: span[0]] + value + self.text[span[1] :]
        self.visible = self.visible[: span[0]] + value + self.visible[span[1] :]


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
        tree.write(pom.path, pom.text)
    others = [pom.path.relative_to(root).as_posix() for pom in edited if pom is not poms[0]]
    changes += [f"The version is set in {code(name)}." for name in others]
    return Outcome(fixed=[fix], changes=changes, unproven=unproven)


def _ranges(poms: list[Pom], project: list[Pom], fix: Fix, root: Path) -> Iterator[str]:
    """Which version Maven chooses from a range depends on all poms of the project."""
    paths = {pom.path for pom in poms}
    for pom in (*poms, *(each for each in project if each.path not in paths)):
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
    # From the end, so that earlier positions stay valid.
    for dependency in reversed(list(_dependencies(pom, poms))):
        if f"{dependency.group}:{dependency.artifact}" != fix.package:
            continue
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
    everywhere = [*poms, *(each for each in project if each.path not in {p.path for p in poms})]
    users = [
        other
        for candidate in everywhere
        for other in _dependencies(candidate, poms)
        if f"${{{name}}}" in other.version
    ]
    uses = sum(candidate.visible.count(f"${{{name}}}") for candidate in everywhere)
    artifacts = {other.artifact for other in users} - {dependency.artifact}
    if {other.group for other in users} != {dependency.group} or uses != len(users):
        reason = f"is used for more than {code(dependency.group)}"
    elif missing := [each for each in sorted(artifacts) if not _is_published(each, fix)]:
        reason = f"is used for {code(missing[0])} too, which has no version {fix.new}"
    else:
        reason = ""
    if reason:
        pom.replace(dependency.span, fix.new)
        yield f"The property {code(name)} {reason}: the dependency now has its own version."
        return
    for candidate in poms:
        if span := _property_span(candidate, name):
            value = candidate.visible[slice(*span)]
            candidate.replace(span, value.replace(fix.old, fix.new))
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
            poms.append(Pom(*tree.open_file(root, name)))
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
    # For all modules, of which each may have a fix.
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
        f"{each.group}:{each.artifact}" == fix.package and each.version == fix.new
        for each in _dependencies(pom, poms)
    )


def _managed_entry(pom: Pom, fix: Fix) -> tuple[tuple[int, int], str]:
    """An empty span, and the text to insert there."""
    visible = _NESTED.sub(lambda match: " " * len(match[0]), pom.visible)
    indentation = match[1] if (match := _INDENTATION.search(visible)) else "  "
    group, _, artifact = fix.package.partition(":")
    lines = [
        (3, "<dependency>"),
        (4, f"<groupId>{group}</groupId>"),
        (4, f"<artifactId>{artifact}</artifactId>"),
        (4, f"<version>{fix.new}</version>"),
        (3, "</dependency>"),
    ]
    section = _MANAGED.search(visible)
    anchor = re.search(r"[ \t]*(?:<dependencies>|</project>)", visible)
    if section is None and anchor is None:
        raise CannotFix(f"{pom.path.name} is not a complete project")
    if section is None:
        opening = [(1, "<dependencyManagement>"), (2, "<dependencies>")]
        closing = [(2, "</dependencies>"), (1, "</dependencyManagement>")]
        lines = [*opening, *lines, *closing]
    text = [f"{indentation * depth}{line}" for depth, line in lines]
    line_end = "\r\n" if "\r\n" in pom.text else "\n"
    if section is not None:
        return (section.end(), section.end()), line_end.join(["", *text])
    assert anchor is not None
    return (anchor.start(), anchor.start()), line_end.join([*text, ""])


def _dependencies(pom: Pom, poms: list[Pom]) -> Iterator[_Dependency]:
    visible = pom.visible
    for match in _DEPENDENCY.finditer(visible):
        version = _element("version", visible, match.span(1))
        group = _element("groupId", visible, match.span(1))
        artifact = _element("artifactId", visible, match.span(1))
        if version and group and artifact:
            yield _Dependency(
                resolve(visible[slice(*group)], poms),
                resolve(visible[slice(*artifact)], poms),
                visible[slice(*version)],
                version,
            )


def _element(name: str, text: str, within: tuple[int, int]) -> tuple[int, int] | None:
    """The span of its content, without surrounding space."""
    pattern = re.compile(rf"<{re.escape(name)}>\s*([^<]*?)\s*</{re.escape(name)}>")
    match = pattern.search(text, *within)
    return match.span(1) if match else None


def resolve(text: str, poms: list[Pom]) -> str:
    return _REFERENCE.sub(lambda match: property_value(match[1], poms) or match[0], text)


def property_value(name: str, poms: list[Pom]) -> str | None:
    for pom in poms:
        if span := _property_span(pom, name):
            return pom.visible[slice(*span)]
    if name in ("project.groupId", "project.version"):
        return _own_coordinate(name.removeprefix("project."), poms[0])
    return None


def _own_coordinate(name: str, pom: Pom) -> str | None:
    """The project's own coordinates: from itself, or from its parent."""
    visible = pom.visible
    body = re.search(r"<(?:dependencies|dependencyManagement|build|profiles)>", visible)
    end = body.start() if body else len(visible)
    parent = _PARENT.search(visible, 0, end)
    for within in ((parent.end() if parent else 0, end), parent.span(1) if parent else (0, 0)):
        if span := _element(name, visible, within):
            return visible[slice(*span)]
    return None


def _property_span(pom: Pom, name: str) -> tuple[int, int] | None:
    visible = pom.visible
    for match in _PROPERTIES.finditer(visible):
        if span := _element(name, visible, match.span(1)):
            return span
    return None


def load_with_parents(root: Path, manifest: str) -> list[Pom]:
    """The file and those it inherits from, as far as they are in this repository."""
    poms = [Pom(*tree.open_file(root, manifest))]
    while len(poms) < _MAX_PARENTS and (parent := _PARENT.search(poms[-1].visible)):
        declared = _element("relativePath", parent[1], (0, len(parent[1])))
        relative = parent[1][slice(*declared)] if declared else "../pom.xml"
        parent_path = (poms[-1].path.parent / relative).resolve() if relative else root
        parent_path = parent_path / "pom.xml" if parent_path.is_dir() else parent_path
        inside = parent_path.is_relative_to(root.resolve()) and parent_path.is_file()
        local_path = root / parent_path.relative_to(root.resolve()) if inside else None
        if local_path is None or any(pom.path.resolve() == parent_path for pom in poms):
            break
        poms.append(Pom(local_path, tree.read(local_path)))
    return poms
