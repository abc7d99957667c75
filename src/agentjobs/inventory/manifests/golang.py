"""Reads go.mod: the modules it requires, as its own `replace` and `exclude` lines leave them.

Versions lose their leading `v`, as the advisories of the ecosystem write them.
"""

import re
from collections.abc import Iterator

import msgspec

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.text import Warnings, decode
from agentjobs.inventory.model import ParsedManifest, Requirement, Root

ECOSYSTEM = "Go"

_TOKEN = re.compile(r'"[^"]*"|`[^`]*`|//.*|[()]|(?:(?!//)[^\s"`()])+')
_VERSION = re.compile(r"v(\d{1,18})\.(\d{1,18})\.(\d{1,18})(?:-([0-9A-Za-z.-]+))?(?:\+[\w.-]+)?")
_LONGEST_LINE = 4096

_PathAndVersion = tuple[str, str]


class _Line(msgspec.Struct, frozen=True):
    verb: str
    words: list[str]
    is_indirect: bool


class _Module(msgspec.Struct):
    """The lines of a go.mod that bear on what is built. An empty version stands for all of them."""

    path: str = ""
    notes: dict[str, str] = {}
    required: dict[str, tuple[str, bool]] = {}
    replaced: dict[_PathAndVersion, _PathAndVersion] = {}
    excluded: set[_PathAndVersion] = set()


def read_go_mod(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    module, warnings = _Module(), Warnings(reasons)
    for line in _lines(text):
        if not _take(module, line):
            shown = " ".join([line.verb, *line.words])[:100]
            warnings.add(f"a line of go.mod that makes no sense was left out: {shown}")
    return _facts(module, warnings)


def _lines(text: str) -> Iterator[_Line]:
    """Lines as words; those of a block carry the word that opened it."""
    block = ""
    for line in text.splitlines():
        words = _TOKEN.findall(line, 0, _LONGEST_LINE)
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
            yield _Line(verb, rest, is_indirect)
    if block:
        # The file was cut off: a line that says nothing becomes the warning of it.
        yield _Line(block, [], is_indirect=False)


def _take(module: _Module, line: _Line) -> bool:
    """Writes down what a line says; False if it makes no sense."""
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
            pass  # Retracted versions, tools, and whatever later versions of Go bring.
    return True


def _require(module: _Module, path: str, version: str, direct: bool) -> None:
    """Of several lines for one module Go takes the highest version."""
    known, known_direct = module.required.get(path, ("", False))
    highest = max(known, version, key=_order) if known else version
    module.required[path] = (highest, direct or known_direct)


def _order(version: str) -> tuple[tuple[int, ...], bool, str]:
    found = _VERSION.fullmatch(version)
    if found is None:
        return (), False, version
    before = found[4]
    return (int(found[1]), int(found[2]), int(found[3])), before is None, before or ""


def _facts(module: _Module, warnings: Warnings) -> ParsedManifest:
    """Go writes the whole list into go.mod, so the file is its own lock file."""
    requirements: list[Requirement] = []
    lock, asked = Lock(warnings), dict[int, None]()
    for path, (version, direct) in module.required.items():
        # Go passes over a requirement of an excluded version.
        if (path, version) in module.excluded:
            continue
        built = module.replaced.get((path, version)) or module.replaced.get((path, ""))
        name, chosen = built or (path, version)
        if not chosen:
            continue  # A directory stands in for the module: its code is not the published one.
        number = chosen.removeprefix("v") if _VERSION.fullmatch(chosen) else None
        if direct:
            requirements.append(Requirement(name, chosen, number))
        if number is not None:
            lock.add((name, number), name, number)
            position = lock.position((name, number))
            if direct and position is not None:
                asked[position] = None
    return ParsedManifest(
        ECOSYSTEM,
        project=module.path,
        requirements=within_bounds(requirements, warnings),
        packages=lock.packages(),
        roots=(Root("", tuple(asked)),),
        notes=module.notes,
        warnings=warnings.all(),
    )
