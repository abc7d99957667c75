"""Reads yarn.lock, of yarn 1 (a format of its own) and of its successors (YAML).

An entry is known by descriptors, `name@range`: who requires that range gets that entry.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.locks import MAX_PACKAGES, Lock
from agentjobs.inventory.manifests.npm.ranges import (
    ECOSYSTEM,
    is_local,
    is_version,
    requirement,
    split_descriptor,
)
from agentjobs.inventory.manifests.npm.yaml_lines import MAX_CHARACTERS, read_block
from agentjobs.inventory.manifests.text import Unreadable, Warnings, decode
from agentjobs.inventory.manifests.text_yaml import parse_yaml
from agentjobs.inventory.model import ParsedManifest, Root

_BULK_1 = re.compile(r"^  (?:resolved|integrity) [^\n]*\n", re.MULTILINE)
_BULK_2 = re.compile(r"^  (?:checksum|languageName|linkType|conditions): [^\n]*\n", re.MULTILINE)
_LINE_1 = re.compile(
    r"""^(?:(?P<header>[^\s#][^\n]*):|[ ]{2}(?P<section>[A-Za-z]+):
    |[ ]{2}version[ ]"?(?P<version>[^"\n]*)"?
    |[ ]{4}(?P<name>"[^"\n]+"|[^\s"]+)[ ](?P<range>"[^"\n]*"|[^"\n]+)|[ ]{2}[A-Za-z]+[ ][^\n]*
    |\#[^\n]*|(?P<other>[^\n]+))\r?$""",
    re.MULTILINE | re.VERBOSE,
)
_REQUIRED = frozenset({"dependencies", "optionalDependencies"})


class _Entry(msgspec.Struct):
    """`name` is the real one. `directory` is set for a project of the repository."""

    descriptors: list[str]
    name: str
    version: str = ""
    requires: list[tuple[str, str]] = []
    directory: str | None = None
    is_local: bool = False


def read_yarn_lock(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    warnings = Warnings(reasons)
    is_first = "\n__metadata:" not in f"\n{text}"
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"larger than {MAX_CHARACTERS >> 20} MiB: no lock file of yarn is")
    found = _version_1(text, warnings) if is_first else _later(content, text)
    entries = list(islice(found, MAX_PACKAGES))
    if text.strip() and not entries and is_first and "# yarn lockfile v1" not in text[:500]:
        raise Unreadable("not a lock file of yarn: neither its first line nor an entry is there")
    lock = Lock(warnings)
    for entry in entries:
        _add(lock, entry)
    for entry in entries:
        lock.require(entry.descriptors[0], _required(lock, entry))
    projects = [entry for entry in entries if entry.directory is not None]
    asked = (
        requirement(name, wanted.removeprefix("npm:") if "@" not in wanted else wanted, "runtime")
        for entry in projects
        for name, wanted in entry.requires
        if not is_local(wanted)
    )
    return ParsedManifest(
        ECOSYSTEM,
        requirements=within_bounds(asked, warnings),
        packages=lock.packages(),
        roots=tuple(Root(e.directory or "", tuple(_required(lock, e))) for e in projects),
        notes=_descriptors(lock, entries) if is_first else {},
        warnings=warnings.all(),
    )


def _add(lock: Lock, entry: _Entry) -> None:
    if entry.is_local or entry.directory is not None:
        return
    if entry.version and not is_version(entry.version):
        shown = f"{entry.name[:100]} is locked at {entry.version[:100]!r}"
        lock.warnings.add(f"{shown}, which is no version")
    for descriptor in entry.descriptors:
        lock.add(descriptor, entry.name, entry.version)


def _required(lock: Lock, entry: _Entry) -> dict[int, None]:
    found: dict[int, None] = {}
    for name, wanted in entry.requires:
        position = lock.position(f"{name}@{wanted}")
        if position is None:
            position = lock.position(f"{name}@npm:{wanted}")
        if position is not None:
            found[position] = None
        elif not is_local(wanted) and len(lock.named(name)) == 1:
            # `resolutions` of the project put another range in its place.
            found[lock.named(name)[0]] = None
    return found


def _descriptors(lock: Lock, entries: Iterable[_Entry]) -> dict[str, str]:
    """Of packages in several versions, which one a range leads to."""
    notes = {}
    for entry in entries:
        if len(lock.named(entry.name)) > 1:
            for descriptor in entry.descriptors:
                key = f"{entry.name}@{split_descriptor(descriptor)[1]}"
                notes[key] = str(lock.position(descriptor))
    return notes


def _version_1(text: str, warnings: Warnings) -> Iterator[_Entry]:
    entry: _Entry | None = None
    section = ""
    for line in _LINE_1.finditer(_BULK_1.sub("", text)):
        kind = line.lastgroup
        if kind == "header":
            if entry is not None:
                yield entry
            entry, section = _opened(line["header"]), ""
        elif kind == "section":
            section = line["section"]
        elif kind == "version" and entry is not None:
            entry.version = line["version"]
        elif kind == "range" and entry is not None and section in _REQUIRED:
            entry.requires.append((line["name"].strip('"'), line["range"].strip('"')))
        elif kind == "other" and line["other"].strip():
            warnings.add(f"a line that makes no sense here: {line['other'].strip()[:100]!r}")
    if entry is not None:
        yield entry


def _opened(header: str) -> _Entry:
    descriptors = [each.strip().strip('"') for each in header.split(", ")]
    name, wanted = split_descriptor(descriptors[0])
    if wanted.startswith("npm:") and "@" in wanted[5:]:
        name = split_descriptor(wanted[4:])[0]
    return _Entry(descriptors, name, is_local=is_local(wanted))


def _later(content: bytes, text: str) -> Iterator[_Entry]:
    document = read_block(_BULK_2.sub("", text))
    if document is None:
        document = parse_yaml(content)
    for key, value in document.items() if isinstance(document, dict) else ():
        if key == "__metadata" or not isinstance(value, dict):
            continue
        name, wanted = split_descriptor(_string(value, "resolution") or key)
        requires = value.get("dependencies")
        wants = requires.items() if isinstance(requires, dict) else ()
        yield _Entry(
            [descriptor.strip() for descriptor in key.split(", ")],
            name,
            _string(value, "version"),
            [(n, w) for n, w in wants if isinstance(w, str)],
            directory=_directory(wanted),
            is_local=is_local(wanted),
        )


def _directory(resolution: str) -> str | None:
    if not resolution.startswith("workspace:"):
        return None
    directory = resolution.removeprefix("workspace:")
    return "" if directory == "." else directory


def _string(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""
