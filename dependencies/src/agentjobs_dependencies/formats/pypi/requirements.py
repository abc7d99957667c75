"""Reads requirements files of pip and, if pip-compile or uv wrote the file, the parents of each
package from its comments. Included files are read separately."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.pypi.names import (
    ECOSYSTEM,
    exact_version,
    is_version,
    parse_requirement,
)
from agentjobs_dependencies.formats.text import Warnings, decode
from agentjobs_dependencies.model import ParsedManifest, Requirement, Root
from agentjobs_dependencies.versions.pypi import normalize_name

_COMMENT = re.compile(r"(?:^|\s)#(.*)$")
# Options that follow a requirement: hashes and build settings.
_OPTION = re.compile(r"\s--?[a-z].*$")
_URL = re.compile(r"[a-z0-9+.-]+://|git\+", re.IGNORECASE)
_EGG = re.compile(r"[#&]egg=([A-Za-z0-9._-]+)")
_WHEEL = re.compile(r"/([A-Za-z0-9._]+)-([0-9][A-Za-z0-9.+!_]*)-[^/#?]+\.whl(?:[#?]|$)")
_EDITABLE = re.compile(r"(?:-e|--editable)[\s=]+")
_BACKSLASH = "\\"
_LOCAL = (".", "/", "~", "file:", _BACKSLASH)
_MAX_LINE = 4096


@dataclass(slots=True)
class RequirementLine:
    """A requirement as written, and the parents named in comments; None without such comments."""

    text: str
    number: int
    parents: list[str] | None = None


def read_requirements(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    warnings = Warnings(reasons)
    entries: list[tuple[Requirement, list[str] | None]] = []
    invalid: list[RequirementLine] = []
    for line in read_lines(text):
        requirement = _requirement(line.text)
        if requirement is not None:
            parents = None if line.parents is None else list(dict.fromkeys(line.parents))
            entries.append((requirement, parents))
            if requirement.version is not None and not is_version(requirement.version):
                warnings.add(f"line {line.number}: {requirement.version!r} is not a valid version")
        elif not line.text.startswith(("-", *_LOCAL)) and not _URL.match(line.text):
            invalid.append(line)
    if invalid:
        first = f"line {invalid[0].number} ({invalid[0].text[:60]!r})"
        rest = f" and {len(invalid) - 1} more lines" if len(invalid) > 1 else ""
        warnings.add(f"{first}{rest}: not a valid requirement")
    requirements = limit_requirements((requirement for requirement, _ in entries), warnings)
    if all(parents is None for _, parents in entries):
        return ParsedManifest(ECOSYSTEM, requirements=requirements, warnings=warnings.all())
    return _read_compiled(entries, requirements, warnings)


def _read_compiled(
    entries: list[tuple[Requirement, list[str] | None]],
    requirements: tuple[Requirement, ...],
    warnings: Warnings,
) -> ParsedManifest:
    """A requirement is direct if no comment names its parents, or if a parent is not in the file
    and so must be a project or another requirements file."""
    lock = Lock(warnings)
    for requirement, _ in entries:
        if requirement.version is not None:
            lock.add(requirement, requirement.name, requirement.version)
    direct: dict[int, None] = {}
    indirect: set[str] = set()
    for requirement, parents in entries:
        position = lock.position(requirement)
        if not parents or any(not lock.named(parent) for parent in parents):
            direct.update({} if position is None else {position: None})
        else:
            indirect.add(requirement.name)
        if position is not None:
            lock.require_by((at for name in parents or () for at in lock.named(name)), position)
    return ParsedManifest(
        ECOSYSTEM,
        requirements=tuple(r for r in requirements if r.name not in indirect),
        packages=lock.packages(),
        roots=(Root("", tuple(direct)),),
        warnings=warnings.all(),
    )


def read_lines(text: str) -> Iterator[RequirementLine]:
    """Lines with continuations joined and without comments; `via` comments after a requirement
    name its parents."""
    current: RequirementLine | None = None
    is_continued = in_via = False
    for number, raw in enumerate(text.splitlines(), 1):
        comment = _COMMENT.search(raw)
        code = (raw if comment is None else raw[: comment.start()]).strip()
        if code and not is_continued:
            if current is not None:
                yield current
            current, in_via = RequirementLine("", number), False
        if current is not None and len(current.text) < _MAX_LINE:
            # Longer continuations are hashes.
            current.text = f"{current.text} {code[:_MAX_LINE].rstrip(_BACKSLASH)}".strip()
        if current is not None and comment is not None:
            in_via = _add_parents(current, comment[1], in_via)
        # As in pip, a comment between continued lines does not end the continuation.
        if code or comment is None:
            is_continued = code.endswith(_BACKSLASH)
    if current is not None:
        yield current


def _add_parents(line: RequirementLine, comment: str, in_via: bool) -> bool:
    """Add the parents named in a comment; True if the next comment may name more."""
    text = comment.strip()
    if text == "via" or text.startswith("via "):
        text, in_via = text[3:], True
        line.parents = line.parents or []
    elif not in_via or not comment.startswith("  "):
        return False
    assert line.parents is not None
    for parent in text.split(","):
        name = parent.strip()
        if name and not name.startswith("-c "):
            line.parents.append(normalize_name(name.partition(" (")[0].partition("[")[0]))
    return in_via


def _requirement(text: str) -> Requirement | None:
    text = _EDITABLE.sub("", text, count=1) if text.startswith("-") else text
    text = _OPTION.sub("", text).strip()
    if not _URL.match(text):
        return None if text.startswith(_LOCAL) else parse_requirement(text)
    wheel, egg = _WHEEL.search(text), _EGG.search(text)
    if wheel is not None:
        name, version = normalize_name(wheel[1]), wheel[2]
        return Requirement(name, f"@ {text}", exact_version(f"=={version}"))
    return Requirement(normalize_name(egg[1]), f"@ {text}") if egg else None
