"""pnpm-lock.yaml (format 9) as text: who gets which version, how two writings are merged. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cve_fixer.model import CannotFix
from cve_fixer.yaml_text import blocks, quoted, unquoted

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
_ASKED = re.compile(rf"^      {_KEY}: (?P<version>[^\n]+)$", re.MULTILINE)
_PEERS = re.compile(r"^    peerDependencies:\n((?:      [^\n]+\n?)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Direct:
    """A project of the repository asks for `name` in the range `spec`."""

    importer: str
    name: str
    spec: str


@dataclass(frozen=True, slots=True)
class Parent:
    """A package asks for `name`."""

    package: str
    version: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.package}@{self.version}"


def main_document(text: str) -> tuple[str, str]:
    """What precedes the lock file proper (the package manager's own), and the lock file."""
    parts = list(_DOCUMENT.finditer(text))
    start = parts[-1].end() if parts else 0
    return text[:start], text[start:]


def check_format(lock: str, name: str) -> None:
    found = _FORMAT.search(lock)
    if not found or found[1].split(".")[0] != "9":
        shown = found[1] if found else "none"
        raise CannotFix(
            f"{name} has the format {shown}: run `pnpm install` with pnpm 9 or newer to renew it"
        )


def packages(lock: str) -> set[tuple[str, str]]:
    """Names with their versions."""
    parts = [unquoted(key).rpartition("@") for key, _ in items(lock, "packages")]
    return {(name, version) for name, _, version in parts}


def versions_of(lock: str, package: str) -> set[str]:
    return {version for name, version in packages(lock) if name == package}


def directs(lock: str, package: str, version: str) -> list[Direct]:
    return [
        Direct(unquoted(importer), unquoted(found["key"]), unquoted(found["spec"]))
        for importer, text in items(lock, "importers")
        for found in _DIRECT.finditer(text)
        if _is(unquoted(found["key"]), unquoted(found["version"]), package, version)
    ]


def parents(lock: str, package: str, version: str) -> list[Parent]:
    """Those that only have it as a peer get what others ask for."""
    peers = {unquoted(key): _peers(text) for key, text in items(lock, "packages")}
    found: dict[Parent, None] = {}
    for key, text in items(lock, "snapshots"):
        parent, _, of_parent = unquoted(key).partition("(")[0].rpartition("@")
        for asked in _ASKED.finditer(text):
            name = unquoted(asked["key"])
            is_peer = name in peers.get(f"{parent}@{of_parent}", ())
            if not is_peer and _is(name, unquoted(asked["version"]), package, version):
                found[Parent(parent, of_parent, name)] = None
    return list(found)


def with_specs(lock: str, renew: Callable[[Direct], str | None]) -> str:
    """With the ranges of projects as `renew` has them; None keeps one."""

    def renewed(importer: str, text: str) -> str:
        def one(found: re.Match[str]) -> str:
            spec = renew(Direct(importer, unquoted(found["key"]), unquoted(found["spec"])))
            if spec is None:
                return found[0]
            start, end = (at - found.start() for at in found.span("spec"))
            return found[0][:start] + quoted(spec) + found[0][end:]

        return _DIRECT.sub(one, text)

    parts = blocks(lock, NAME)
    head, listed = _items(parts.get("importers", ""))
    parts["importers"] = head + "".join(renewed(unquoted(key), text) for key, text in listed)
    return "".join(parts.values())


def with_block(lock: str, key: str, block: str) -> str:
    """With this block instead of the one of that key, in pnpm's order; empty to remove it."""
    parts = blocks(lock, NAME)
    parts.pop(key, None)
    before = {"": "", "lockfileVersion": "", "settings": "", "catalogs": ""}
    if key == "catalogs":
        del before["catalogs"]
    known = {name: parts.pop(name) for name in before if name in parts}
    return "".join((*known.values(), block, *parts.values()))


def merged(old: str, before: str, after: str) -> str:
    """What changed between two writings of today's pnpm, done to what an older one wrote."""
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
        head, listed = _items(block) if section in _SPLIT else (block, [])
        yield (section, ""), head
        for key, text in listed:
            yield (section, unquoted(key)), text


def _items(block: str) -> tuple[str, list[tuple[str, str]]]:
    starts = [found.start() for found in _ITEM.finditer(block)]
    texts = [block[one:two] for one, two in zip(starts, [*starts[1:], len(block)], strict=True)]
    listed = []
    for text in texts:
        found = _ITEM_KEY.match(text)
        if found is None:
            raise CannotFix(f"{NAME} is not as pnpm writes it: {text[:60]!r}")
        listed.append((found["key"], text))
    return block[: starts[0]] if starts else block, listed


def _peers(text: str) -> set[str]:
    found = _PEERS.search(text)
    rows = found[1].splitlines() if found else []
    return {unquoted(row.strip().rpartition(": ")[0]) for row in rows}


def _is(name: str, given: str, package: str, version: str) -> bool:
    plain = given.partition("(")[0]
    return plain == f"{package}@{version}" or (name == package and plain == version)
