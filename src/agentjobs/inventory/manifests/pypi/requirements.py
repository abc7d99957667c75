"""Reads requirements files of pip: what is asked for and, where pip-compile or uv wrote the file,
who asks for whom. A file that this one includes is a file of its own."""

import re
from collections.abc import Iterator

import msgspec

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.pypi.names import (
    ECOSYSTEM,
    exact_version,
    is_version,
    normalized,
    parse_requirement,
)
from agentjobs.inventory.manifests.text import Warnings, decode
from agentjobs.inventory.model import ParsedManifest, Requirement, Root

_COMMENT = re.compile(r"(?:^|\s)#(.*)$")
# What follows the requirement itself: hashes and settings of its build.
_OPTION = re.compile(r"\s--?[a-z].*$")
_ADDRESS = re.compile(r"[a-z0-9+.-]+://|git\+", re.IGNORECASE)
_EGG = re.compile(r"[#&]egg=([A-Za-z0-9._-]+)")
_WHEEL = re.compile(r"/([A-Za-z0-9._]+)-([0-9][A-Za-z0-9.+!_]*)-[^/#?]+\.whl(?:[#?]|$)")
_EDITABLE = re.compile(r"(?:-e|--editable)[\s=]+")
_BACKSLASH = "\\"
_LOCAL = (".", "/", "~", "file:", _BACKSLASH)
_MAX_LINE = 4096


class _Line(msgspec.Struct):
    """A requirement as written and the parents that comments name; None: no comment does."""

    text: str
    number: int
    parents: list[str] | None = None


def read_requirements(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    warnings = Warnings(reasons)
    found: list[tuple[Requirement, list[str] | None]] = []
    strange: list[_Line] = []
    for line in _lines(text):
        requirement = _requirement(line.text)
        if requirement is not None:
            parents = None if line.parents is None else list(dict.fromkeys(line.parents))
            found.append((requirement, parents))
            if requirement.version is not None and not is_version(requirement.version):
                warnings.add(f"line {line.number}: {requirement.version!r} is no version")
        elif not line.text.startswith(("-", *_LOCAL)) and not _ADDRESS.match(line.text):
            strange.append(line)
    if strange:
        first = f"line {strange[0].number} ({strange[0].text[:60]!r})"
        more = f" and {len(strange) - 1} more lines" if len(strange) > 1 else ""
        warnings.add(f"{first}{more}: no requirement that pip would read")
    requirements = within_bounds((requirement for requirement, _ in found), warnings)
    if all(parents is None for _, parents in found):
        return ParsedManifest(ECOSYSTEM, requirements=requirements, warnings=warnings.all())
    return _compiled(found, requirements, warnings)


def _compiled(
    found: list[tuple[Requirement, list[str] | None]],
    requirements: tuple[Requirement, ...],
    warnings: Warnings,
) -> ParsedManifest:
    """A parent that is not in the file is a project or a file of requirements: what it asks for is
    direct. So is what no comment speaks of."""
    lock = Lock(warnings)
    for requirement, _ in found:
        if requirement.version is not None:
            lock.add(requirement, requirement.name, requirement.version)
    direct: dict[int, None] = {}
    indirect: set[str] = set()
    for requirement, parents in found:
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


def _lines(text: str) -> Iterator[_Line]:
    """Lines with continuations joined and comments taken off; those below a requirement that say
    `via` tell its parents."""
    current: _Line | None = None
    is_continued = in_via = False
    for number, raw in enumerate(text.splitlines(), 1):
        comment = _COMMENT.search(raw)
        code = (raw if comment is None else raw[: comment.start()]).strip()
        if code and not is_continued:
            if current is not None:
                yield current
            current, in_via = _Line("", number), False
        if current is not None and len(current.text) < _MAX_LINE:
            # What is continued beyond this are hashes.
            current.text = f"{current.text} {code[:_MAX_LINE].rstrip(_BACKSLASH)}".strip()
        if current is not None and comment is not None:
            in_via = _take_via(current, comment[1], in_via)
        # A comment in the middle of a continued line does not end it, as in pip.
        if code or comment is None:
            is_continued = code.endswith(_BACKSLASH)
    if current is not None:
        yield current


def _take_via(line: _Line, comment: str, in_via: bool) -> bool:
    """Writes down the parents a comment names; True if the next comment goes on with them."""
    words = comment.strip()
    if words == "via" or words.startswith("via "):
        words, in_via = words[3:], True
        line.parents = line.parents or []
    elif not in_via or not comment.startswith("  "):
        return False
    assert line.parents is not None
    for parent in words.split(","):
        name = parent.strip()
        if name and not name.startswith("-c "):
            line.parents.append(normalized(name.partition(" (")[0].partition("[")[0]))
    return in_via


def _requirement(text: str) -> Requirement | None:
    text = _EDITABLE.sub("", text, count=1) if text.startswith("-") else text
    text = _OPTION.sub("", text).strip()
    if not _ADDRESS.match(text):
        return None if text.startswith(_LOCAL) else parse_requirement(text)
    wheel, egg = _WHEEL.search(text), _EGG.search(text)
    if wheel is not None:
        name, version = normalized(wheel[1]), wheel[2]
        return Requirement(name, f"@ {text}", exact_version(f"=={version}"))
    return Requirement(normalized(egg[1]), f"@ {text}") if egg else None
