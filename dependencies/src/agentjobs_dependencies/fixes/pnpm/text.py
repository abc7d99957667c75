"""pnpm-lock.yaml (formats 5, 6 and 9) as text: required versions, and merging two files. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from agentjobs_dependencies.fixes.model import CannotFix
from agentjobs_dependencies.fixes.yaml_text import blocks, unquote
from agentjobs_dependencies.formats.npm.pnpm_lock import (
    PnpmLock,
    project_requirements,
    read_section,
    split_package,
)

NAME = "pnpm-lock.yaml"
_DOCUMENT = re.compile(r"^---[ \t]*\r?\n", re.MULTILINE)
_FORMAT = re.compile(r"^lockfileVersion: ['\"]?([\d.]+)", re.MULTILINE)
_SPLIT = ("importers", "packages", "snapshots")
_ITEM = re.compile(r"^  (?=\S)", re.MULTILINE)
_KEY = r"(?P<key>'[^'\n]+'|[^\s'][^\n]*?)"
_ITEM_KEY = re.compile(rf"  {_KEY}:(?: \{{\}})?[ ]*(?:\n|$)")


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
    return {split_package(key) for key in PnpmLock(lock).entries}


def find_versions(lock: str, package: str) -> set[str]:
    return {version for name, version in packages(lock) if name == package}


def directs(lock: str, package: str, version: str) -> list[Direct]:
    return [
        Direct(importer, required.name, required.specifier)
        for importer, project in PnpmLock(lock).importers.items()
        for required in project_requirements(project)
        if _matches(required.name, required.resolved, package, version)
    ]


def parents(lock: str, package: str, version: str) -> list[Parent]:
    """Excludes packages that only have it as a peer, which get what others require."""
    document = PnpmLock(lock)
    result: dict[Parent, None] = {}
    for key, entry in document.entries.items():
        peers = read_section(document.metadata(key), "peerDependencies")
        for section in ("dependencies", "optionalDependencies"):
            for name, resolved in read_section(entry, section).items():
                if name not in peers and _matches(name, resolved, package, version):
                    result[Parent(*split_package(key), name)] = None
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


def _pieces(lock: str) -> Iterator[tuple[tuple[str, str], str]]:
    for section, block in blocks(lock.rstrip("\n") + "\n\n", NAME).items():
        head, entries = _items(block) if section in _SPLIT else (block, [])
        yield (section, ""), head
        for key, text in entries:
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


def _matches(name: str, resolved: str, package: str, version: str) -> bool:
    is_version = name == package and re.split("[_(]", resolved)[0] == version
    return is_version or split_package(resolved) == (package, version)
