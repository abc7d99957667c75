"""Reads go.mod: the required modules after `replace` and `exclude`.

Removes the leading `v` of versions, as Go's advisories do.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.text import Warnings, decode
from agentjobs_dependencies.model import ParsedManifest, Requirement, Root
from agentjobs_dependencies.versions.order import version_key

ECOSYSTEM = "Go"

_TOKEN = re.compile(r'"[^"]*"|`[^`]*`|//.*|[()]|(?:(?!//)[^\s"`()])+')
_VERSION = re.compile(r"v(\d{1,18})\.(\d{1,18})\.(\d{1,18})(?:-([0-9A-Za-z.-]+))?(?:\+[\w.-]+)?")
_MAX_LINE = 4096

_PathAndVersion = tuple[str, str]


class GoLine(NamedTuple):
    """`number` starts at 0."""

    verb: str
    words: list[str]
    is_indirect: bool
    number: int


@dataclass(slots=True)
class GoModule:
    """The lines of a go.mod that affect the build. An empty version means all versions."""

    path: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    required: dict[str, tuple[str, bool]] = field(default_factory=dict)
    replaced: dict[_PathAndVersion, _PathAndVersion] = field(default_factory=dict)
    excluded: set[_PathAndVersion] = field(default_factory=set)


def read_go_mod(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    warnings = Warnings(reasons)
    return _build(read_module(text, warnings), warnings)


def read_module(text: str, warnings: Warnings) -> GoModule:
    module = GoModule()
    for line in read_lines(text):
        if not _apply(module, line):
            words = " ".join([line.verb, *line.words])[:100]
            warnings.add(f"an invalid line is left out: {words}")
    return module


def read_lines(text: str) -> Iterator[GoLine]:
    """Lines split into words; lines of a block start with the block's verb."""
    block = ""
    for number, line in enumerate(text.splitlines()):
        words = _TOKEN.findall(line, 0, _MAX_LINE)
        comment = words.pop()[2:].split() if words and words[-1].startswith("//") else []
        words = [word.strip('"`') for word in words]
        if not words:
            continue
        if words[-1] == "(" and not block:
            block = words[0]
        elif words == [")"]:
            block = ""
        else:
            is_indirect = comment == ["indirect"] or comment[:1] == ["indirect;"]
            verb, *rest = [block, *words] if block else words
            yield GoLine(verb, rest, is_indirect, number)
    if block:
        # The file is truncated: an empty line produces a warning.
        yield GoLine(block, [], is_indirect=False, number=text.count("\n"))


def _apply(module: GoModule, line: GoLine) -> bool:
    """Apply a line to the module; False if the line is invalid."""
    match line.verb, line.words:
        case "module", [path]:
            module.path = path
        case (("go" | "toolchain"), [version]):
            module.notes[line.verb] = version
        case "require", [path, version]:
            _require(module, path, version, not line.is_indirect)
        case "exclude", [path, version]:
            module.excluded.add((path, version))
        case "replace", [path, "=>", new, *version]:
            module.replaced[path, ""] = (new, "".join(version))
        case "replace", [path, old, "=>", new, *version]:
            module.replaced[path, old] = (new, "".join(version))
        case (("module" | "require" | "exclude" | "replace"), _):
            return False
        case _:
            pass  # Retractions, tools, and verbs of later Go versions.
    return True


def _require(module: GoModule, path: str, version: str, direct: bool) -> None:
    """If several lines require one module, Go uses the highest version."""
    known, known_direct = module.required.get(path, ("", False))
    highest = (
        max(known, version, key=lambda text: version_key("Go", text) or ()) if known else version
    )
    module.required[path] = (highest, direct or known_direct)


def _build(module: GoModule, warnings: Warnings) -> ParsedManifest:
    """go.mod has the complete list of modules, so it serves as its own lock file."""
    requirements: list[Requirement] = []
    lock, direct_positions = Lock(warnings), dict[int, None]()
    for path, (version, direct) in module.required.items():
        # Go ignores a requirement of an excluded version.
        if (path, version) in module.excluded:
            continue
        replacement = module.replaced.get((path, version)) or module.replaced.get((path, ""))
        name, chosen = replacement or (path, version)
        if not chosen:
            continue  # Replaced by a local directory, which is not the published module.
        number = chosen.removeprefix("v") if _VERSION.fullmatch(chosen) else None
        if direct:
            requirements.append(Requirement(name, chosen, number))
        if number is not None:
            lock.add((name, number), name, number)
            position = lock.position((name, number))
            if direct and position is not None:
                direct_positions[position] = None
    return ParsedManifest(
        ECOSYSTEM,
        project=module.path,
        requirements=limit_requirements(requirements, warnings),
        packages=lock.packages(),
        roots=(Root("", tuple(direct_positions)),),
        notes=module.notes,
        warnings=warnings.all(),
    )
