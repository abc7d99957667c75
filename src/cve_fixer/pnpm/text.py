"""pnpm-lock.yaml (format 9) as text: required versions, and merging two versions. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cve_fixer.model import CannotFix
from cve_fixer.yaml_text import blocks, quote, unquote

NAME = "pnpm-lock.yaml"
_DOCUMENT = re.compile(r"^---[ \t]*\r?\n", re.MULTILINE)
_FORMAT = re.compile(r"^lockfileVersion: ['\"]?([\d.]+)", re.MULTILINE)
_SPLIT = ("importers", "packages", "snapshots")
_ITEM = re.compile(r"^  (?=\S)", re.MULTILINE)
_KEY = r"(?P<key>'[^'\n]+'|[^\s'][^\n]*?)"
_ITEM_KEY = re.compile(rf"  {_KEY}:(?: \{{\}})?[ ]*(?:\n|$)")
_DIRECT = re.compile(
    rf"^      {_KEY}:\n        specifier: (?P<spec>[^\n]+)\n        version: (?P<version>[^\n]+)$",
    re.MULTILINE,
)
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


def check_format(lock: str, name: str) -> None:
    match = _FORMAT.search(lock)
    if not match or match[1].split(".")[0] != "9":
        lock_format = match[1] if match else "none"
        raise CannotFix(
            f"{name} has the format {lock_format}: run `pnpm install` with pnpm 9 or newer"
        )


def packages(lock: str) -> set[tuple[str, str]]:
    """Names and versions."""
    parts = [unquote(key).rpartition("@") for key, _ in items(lock, "packages")]
    return {(name, version) for name, _, version in parts}


def versions_of(lock: str, package: str) -> set[str]:
    return {version for name, version in packages(lock) if name == package}


def directs(lock: str, package: str, version: str) -> list[Direct]:
    return [
        Direct(unquote(importer), unquote(match["key"]), unquote(match["spec"]))
        for importer, text in items(lock, "importers")
        for match in _DIRECT.finditer(text)
        if _matches(unquote(match["key"]), unquote(match["version"]), package, version)
    ]


def parents(lock: str, package: str, version: str) -> list[Parent]:
    """Excludes packages that only have it as a peer, which get what others require."""
    peers = {unquote(key): _peers(text) for key, text in items(lock, "packages")}
    match: dict[Parent, None] = {}
    for key, text in items(lock, "snapshots"):
        parent, _, parent_version = unquote(key).partition("(")[0].rpartition("@")
        for requirement in _REQUIREMENT.finditer(text):
            name = unquote(requirement["key"])
            is_peer = name in peers.get(f"{parent}@{parent_version}", ())
            if not is_peer and _matches(name, unquote(requirement["version"]), package, version):
                match[Parent(parent, parent_version, name)] = None
    return list(match)


def replace_specs(lock: str, new_spec: Callable[[Direct], str | None]) -> str:
    """Replace the ranges of projects; `new_spec` returns None to keep one."""

    def update(importer: str, text: str) -> str:
        def replace_spec(match: re.Match[str]) -> str:
            spec = new_spec(Direct(importer, unquote(match["key"]), unquote(match["spec"])))
            if spec is None:
                return match[0]
            start, end = (at - match.start() for at in match.span("spec"))
            return match[0][:start] + quote(spec) + match[0][end:]

        return _DIRECT.sub(replace_spec, text)

    parts = blocks(lock, NAME)
    head, importers = _items(parts.get("importers", ""))
    parts["importers"] = head + "".join(update(unquote(key), text) for key, text in importers)
    return "".join(parts.values())


def replace_block(lock: str, key: str, block: str) -> str:
    """Replace or add the block of a key, in pnpm's order; an empty block removes it."""
    parts = blocks(lock, NAME)
    parts.pop(key, None)
    before = {"": "", "lockfileVersion": "", "settings": "", "catalogs": ""}
    if key == "catalogs":
        del before["catalogs"]
    known = {name: parts.pop(name) for name in before if name in parts}
    return "".join((*known.values(), block, *parts.values()))


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
    texts = [block[start:end] for start, end in zip(starts, [*starts[1:], len(block)], strict=True)]
    importers = []
    for text in texts:
        match = _ITEM_KEY.match(text)
        if match is None:
            raise CannotFix(f"{NAME} is not in pnpm's style: {text[:60]!r}")
        importers.append((match["key"], text))
    return block[: starts[0]] if starts else block, importers


def _peers(text: str) -> set[str]:
    match = _PEERS.search(text)
    rows = match[1].splitlines() if match else []
    return {unquote(row.strip().rpartition(": ")[0]) for row in rows}


def _matches(name: str, resolved: str, package: str, version: str) -> bool:
    version_only = resolved.partition("(")[0]
    return version_only == f"{package}@{version}" or (name == package and version_only == version)
