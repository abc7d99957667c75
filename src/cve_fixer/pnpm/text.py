"""pnpm-lock.yaml (formats 5, 6 and 9) as text: required versions, and merging two files. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from cve_fixer.model import CannotFix
from cve_fixer.yaml_text import blocks, unquote

NAME = "pnpm-lock.yaml"
_DOCUMENT = re.compile(r"^---[ \t]*\r?\n", re.MULTILINE)
_FORMAT = re.compile(r"^lockfileVersion: ['\"]?([\d.]+)", re.MULTILINE)
_DEPENDENCIES = ("dependencies", "optionalDependencies", "devDependencies")
_SPLIT = ("importers", "packages", "snapshots")
_ITEM = re.compile(r"^  (?=\S)", re.MULTILINE)
_KEY = r"(?P<key>'[^'\n]+'|[^\s'][^\n]*?)"
_ITEM_KEY = re.compile(rf"  {_KEY}:(?: \{{\}})?[ ]*(?:\n|$)")
_DIRECT = re.compile(
    rf"^      {_KEY}:\n        specifier: (?P<spec>[^\n]+)\n        version: (?P<version>[^\n]+)$",
    re.MULTILINE,
)
# Format 5 has the ranges apart from the versions.
_SECTION = re.compile(r"^    (?P<name>\w+):\n(?P<rows>(?:      [^\n]+(?:\n|$))+)", re.MULTILINE)
# `name@version`; format 6 has a slash before it, and format 5 another one instead of the `@`.
_PACKAGE = re.compile(r"/?(?P<name>(?:@[^/@]+/)?[^/@]+)[/@](?P<version>[^_(]+)")
_REQUIREMENT = re.compile(rf"^      {_KEY}: (?P<version>[^\n]+)$", re.MULTILINE)
_PEERS = re.compile(r"^    peerDependencies:\n((?:      [^\n]+\n?)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Direct:
    """A project of the repository requires `name` in the range `spec`."""

    importer: str
    name: str
    spec: str


@dataclass(frozen=True, slots=True)
class Parent:
    """A package requires `name`."""

    package: str
    version: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.package}@{self.version}"


def main_document(text: str) -> tuple[str, str]:
    """The documents before the lock file (for the package manager itself), and the lock file."""
    parts = list(_DOCUMENT.finditer(text))
    start = parts[-1].end() if parts else 0
    return text[:start], text[start:]


def lock_format(lock: str) -> str:
    match = _FORMAT.search(lock)
    return match[1] if match else "none"


def packages(lock: str) -> set[tuple[str, str]]:
    """Names and versions."""
    return {_split_package(unquote(key)) for key, _ in items(lock, "packages")}


def importers(lock: str) -> list[tuple[str, str]]:
    """The projects of the repository. Formats 5 and 6 do not indent a single one."""
    listed = [(unquote(key), text) for key, text in items(lock, "importers")]
    if listed:
        return listed
    parts = blocks(lock, NAME)
    alone = "".join(parts.get(name, "") for name in ("specifiers", *_DEPENDENCIES))
    return [(".", re.sub(r"^(?=.)", "    ", alone, flags=re.MULTILINE))]


def versions_of(lock: str, package: str) -> set[str]:
    return {version for name, version in packages(lock) if name == package}


def directs(lock: str, package: str, version: str) -> list[Direct]:
    return [
        Direct(importer, name, spec)
        for importer, text in importers(lock)
        for name, spec, resolved in _requirements(text)
        if _matches(name, resolved, package, version)
    ]


def _requirements(importer: str) -> Iterator[tuple[str, str, str]]:
    """Names, ranges and resolved versions."""
    for match in _DIRECT.finditer(importer):
        yield unquote(match["key"]), unquote(match["spec"]), unquote(match["version"])
    sections = {match["name"]: _rows(match["rows"]) for match in _SECTION.finditer(importer)}
    specs = dict(sections.pop("specifiers", ()))
    for rows in sections.values():
        yield from ((name, specs[name], resolved) for name, resolved in rows if name in specs)


def _rows(rows: str) -> list[tuple[str, str]]:
    found = _REQUIREMENT.finditer(rows)
    return [(unquote(match["key"]), unquote(match["version"])) for match in found]


def parents(lock: str, package: str, version: str) -> list[Parent]:
    """Excludes packages that only have it as a peer, which get what others require."""
    peers = {unquote(key): _peers(text) for key, text in items(lock, "packages")}
    result: dict[Parent, None] = {}
    for key, text in items(lock, "snapshots") or items(lock, "packages"):
        parent = _split_package(unquote(key))
        own_peers = peers.get(unquote(key)) or peers.get(unquote(key).partition("(")[0], set())
        for name, resolved in _rows(text):
            if name not in own_peers and _matches(name, resolved, package, version):
                result[Parent(*parent, name)] = None
    return list(result)


def replace_block(lock: str, key: str, block: str) -> str:
    """Replace or add the block of a key, in pnpm's order; an empty block removes it."""
    parts = blocks(lock, NAME)
    parts.pop(key, None)
    before = {"": "", "lockfileVersion": "", "settings": "", "catalogs": ""}
    if key == "catalogs":
        del before["catalogs"]
    known = {name: parts.pop(name) for name in before if name in parts}
    return "".join((*known.values(), block, *parts.values()))


def has_same_entries(lock: str, other: str) -> bool:
    """Whether both have the same projects and packages."""
    keys, others = ({key for key, _ in _pieces(text) if key[1]} for text in (lock, other))
    return keys == others


def merge(old: str, before: str, after: str) -> str:
    """Apply the difference between two outputs of the installed pnpm to an older one's text."""
    if old == before:
        return after
    ours, base, theirs = (dict(_pieces(text)) for text in (old, before, after))
    result = {key: text for key, text in ours.items() if key in theirs or key not in base}
    order = list(result)
    previous: tuple[str, str] | None = None
    for key, text in theirs.items():
        if key not in result and base.get(key) != text:
            order.insert(order.index(previous) + 1 if previous in order else len(order), key)
        if base.get(key) != text:
            result[key] = text
        if key in result:
            previous = key
    return "".join(result[key] for key in order).rstrip("\n") + "\n"


def items(lock: str, section: str) -> list[tuple[str, str]]:
    return _items(blocks(lock, NAME).get(section, ""))[1]


def _pieces(lock: str) -> Iterator[tuple[tuple[str, str], str]]:
    for section, block in blocks(lock.rstrip("\n") + "\n\n", NAME).items():
        head, importers = _items(block) if section in _SPLIT else (block, [])
        yield (section, ""), head
        for key, text in importers:
            yield (section, unquote(key)), text


def _items(block: str) -> tuple[str, list[tuple[str, str]]]:
    starts = [match.start() for match in _ITEM.finditer(block)]
    texts = [block[start:end] for start, end in pairwise((*starts, len(block)))]
    pieces = []
    for text in texts:
        match = _ITEM_KEY.match(text)
        if match is None:
            raise CannotFix(f"{NAME} is not in pnpm's style: {text[:60]!r}")
        pieces.append((match["key"], text))
    return block[: starts[0]] if starts else block, pieces


def _peers(text: str) -> set[str]:
    match = _PEERS.search(text)
    rows = match[1].splitlines() if match else []
    return {unquote(row.strip().rpartition(": ")[0]) for row in rows}


def _matches(name: str, resolved: str, package: str, version: str) -> bool:
    is_version = name == package and re.split("[_(]", resolved)[0] == version
    return is_version or _split_package(resolved) == (package, version)


def _split_package(package_id: str) -> tuple[str, str]:
    match = _PACKAGE.match(package_id)
    return (match["name"], match["version"]) if match else (package_id, "")
