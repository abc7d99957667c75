"""pom.xml: the version of one dependency, where it is written: there, or in a property.

Reads the text itself, because an XML parser would not give back its bytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cve_fixer import tree
from cve_fixer.model import CannotFix, Fix, Outcome
from cve_fixer.text import code

_HIDDEN = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<exclusions>.*?</exclusions>", re.DOTALL)
_DEPENDENCY = re.compile(r"<dependency>(.*?)</dependency>", re.DOTALL)
_PROPERTIES = re.compile(r"<properties>(.*?)</properties>", re.DOTALL)
_PARENT = re.compile(r"<parent>(.*?)</parent>", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([^}\s]+)\}")
_MOST_PARENTS = 8


@dataclass(slots=True)
class Pom:
    """`visible` has the places of `text`, with what is no markup of ours blanked out."""

    path: Path
    text: str
    visible: str = field(init=False)

    def __post_init__(self) -> None:
        self.visible = _HIDDEN.sub(lambda found: " " * len(found[0]), self.text)

    def replace(self, span: tuple[int, int], value: str) -> None:
        self.text = self.text[: span[0]] + value + self.text[span[1] :]
        self.visible = self.visible[: span[0]] + value + self.visible[span[1] :]


@dataclass(frozen=True, slots=True)
class _Dependency:
    group: str
    artifact: str
    version: str
    span: tuple[int, int]


def fix(fixes: list[Fix], root: Path) -> Outcome:
    outcome = Outcome()
    for wanted in fixes:
        try:
            outcome.add(_fix(wanted, root))
        except CannotFix as error:
            outcome.fail([wanted], str(error))
    return outcome


def _fix(wanted: Fix, root: Path) -> Outcome:
    poms = _with_parents(root, wanted.manifest)
    before = {pom.path: pom.text for pom in poms}
    changes = [change for pom in poms for change in _edit(pom, poms, wanted)]
    edited = [pom for pom in poms if pom.text != before[pom.path]]
    if not edited:
        raise CannotFix(
            f"neither {wanted.manifest} nor its parents here give {wanted.package} the version "
            f"{wanted.old}"
        )
    for pom in edited:
        tree.write(pom.path, pom.text)
    others = [pom.path.relative_to(root).as_posix() for pom in edited if pom is not poms[0]]
    changes += [f"The version is written in {code(name)}." for name in others]
    return Outcome(made=[wanted], changes=changes)


def _edit(pom: Pom, poms: list[Pom], wanted: Fix) -> Iterator[str]:
    # From the end, so that the places before an edit stay true.
    for found in reversed(list(_dependencies(pom, poms))):
        if f"{found.group}:{found.artifact}" != wanted.package:
            continue
        reference = _REFERENCE.fullmatch(found.version)
        if found.version == wanted.old:
            pom.replace(found.span, wanted.new)
        elif reference and _value(reference[1], poms) == wanted.old:
            yield from _edit_property(reference[1], found, pom, poms, wanted)


def _edit_property(
    name: str, found: _Dependency, pom: Pom, poms: list[Pom], wanted: Fix
) -> Iterator[str]:
    """The property itself where it speaks for one group only; else the dependency leaves it."""
    groups = {
        other.group
        for one in poms
        for other in _dependencies(one, poms)
        if f"${{{name}}}" in other.version
    }
    uses = sum(one.visible.count(f"${{{name}}}") for one in poms)
    known = sum(
        f"${{{name}}}" in other.version for one in poms for other in _dependencies(one, poms)
    )
    if groups != {found.group} or uses != known:
        pom.replace(found.span, wanted.new)
        shared = f"The property {code(name)} is used for more than {code(found.group)}"
        yield f"{shared}: the dependency has its version by itself now."
        return
    for one in poms:
        if span := _property_span(one, name):
            one.replace(span, wanted.new)
            yield f"The property {code(name)} has the new version, for all of {code(found.group)}."
            return


def _dependencies(pom: Pom, poms: list[Pom]) -> Iterator[_Dependency]:
    visible = pom.visible
    for found in _DEPENDENCY.finditer(visible):
        version = _element("version", visible, found.span(1))
        group = _element("groupId", visible, found.span(1))
        artifact = _element("artifactId", visible, found.span(1))
        if version and group and artifact:
            yield _Dependency(
                _resolved(visible[slice(*group)], poms),
                _resolved(visible[slice(*artifact)], poms),
                visible[slice(*version)],
                version,
            )


def _element(name: str, text: str, within: tuple[int, int]) -> tuple[int, int] | None:
    """Where its content stands, without the space around it."""
    pattern = re.compile(rf"<{re.escape(name)}>\s*([^<]*?)\s*</{re.escape(name)}>")
    found = pattern.search(text, *within)
    return found.span(1) if found else None


def _resolved(text: str, poms: list[Pom]) -> str:
    return _REFERENCE.sub(lambda found: _value(found[1], poms) or found[0], text)


def _value(name: str, poms: list[Pom]) -> str | None:
    for pom in poms:
        if span := _property_span(pom, name):
            return pom.visible[slice(*span)]
    if name in ("project.groupId", "project.version"):
        return _own(name.removeprefix("project."), poms[0])
    return None


def _own(name: str, pom: Pom) -> str | None:
    """What the project is called: said by itself before anything else, or by its parent."""
    visible = pom.visible
    beyond = re.search(r"<(?:dependencies|dependencyManagement|build|profiles)>", visible)
    end = beyond.start() if beyond else len(visible)
    parent = _PARENT.search(visible, 0, end)
    for within in ((parent.end() if parent else 0, end), parent.span(1) if parent else (0, 0)):
        if span := _element(name, visible, within):
            return visible[slice(*span)]
    return None


def _property_span(pom: Pom, name: str) -> tuple[int, int] | None:
    visible = pom.visible
    for found in _PROPERTIES.finditer(visible):
        if span := _element(name, visible, found.span(1)):
            return span
    return None


def _with_parents(root: Path, manifest: str) -> list[Pom]:
    """The file and those it inherits from, as far as they lie in this repository."""
    path = tree.file_in(root, manifest)
    poms = [Pom(path, tree.read(path))]
    while len(poms) < _MOST_PARENTS and (parent := _PARENT.search(poms[-1].visible)):
        declared = _element("relativePath", parent[1], (0, len(parent[1])))
        relative = parent[1][slice(*declared)] if declared else "../pom.xml"
        above = (poms[-1].path.parent / relative).resolve() if relative else root
        above = above / "pom.xml" if above.is_dir() else above
        inside = above.is_relative_to(root.resolve()) and above.is_file()
        place = root / above.relative_to(root.resolve()) if inside else None
        if place is None or any(pom.path.resolve() == above for pom in poms):
            break
        poms.append(Pom(place, tree.read(place)))
    return poms
