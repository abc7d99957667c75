"""Reads yarn.lock of yarn 1 (a custom format) and of later versions (YAML).

The keys of an entry are descriptors, `name@range`, for which it is installed.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from agentjobs.inventory.manifests.bounds import limit_requirements
from agentjobs.inventory.manifests.locks import MAX_PACKAGES, Lock
from agentjobs.inventory.manifests.npm.ranges import (
    ECOSYSTEM,
    is_local,
    is_version,
    requirement,
    split_descriptor,
)
from agentjobs.inventory.manifests.text import UnreadableManifest, Warnings, decode
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
# Larger than any yarn.lock.
MAX_CHARACTERS = 16 << 20
_REQUIRED = frozenset({"dependencies", "optionalDependencies"})


class _Entry(msgspec.Struct):
    """`name` is the real name of an alias. `directory` is set for a project of the repository."""

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
        raise UnreadableManifest(
            f"larger than {MAX_CHARACTERS >> 20} MiB: too large for a yarn.lock"
        )
    parsed = _version_1(text, warnings) if is_first else _later(text)
    entries = list(islice(parsed, MAX_PACKAGES))
    if text.strip() and not entries and is_first and "# yarn lockfile v1" not in text[:500]:
        raise UnreadableManifest("not a yarn.lock: it has neither the header nor an entry")
    lock = Lock(warnings)
    for entry in entries:
        _add(lock, entry)
    for entry in entries:
        lock.require(entry.descriptors[0], _required(lock, entry))
    projects = [entry for entry in entries if entry.directory is not None]
    project_requirements = (
        requirement(
            name,
            version_range.removeprefix("npm:") if "@" not in version_range else version_range,
            "runtime",
        )
        for entry in projects
        for name, version_range in entry.requires
        if not is_local(version_range)
    )
    return ParsedManifest(
        ECOSYSTEM,
        requirements=limit_requirements(project_requirements, warnings),
        packages=lock.packages(),
        roots=tuple(Root(e.directory or "", tuple(_required(lock, e))) for e in projects),
        notes=_descriptors(lock, entries) if is_first else {},
        warnings=warnings.all(),
    )


def _add(lock: Lock, entry: _Entry) -> None:
    if entry.is_local or entry.directory is not None:
        return
    if entry.version and not is_version(entry.version):
        reason = f"{entry.name[:100]} has the invalid version {entry.version[:100]!r}"
        lock.warnings.add(reason)
    for descriptor in entry.descriptors:
        lock.add(descriptor, entry.name, entry.version)


def _required(lock: Lock, entry: _Entry) -> dict[int, None]:
    positions: dict[int, None] = {}
    for name, version_range in entry.requires:
        position = lock.position(f"{name}@{version_range}")
        if position is None:
            position = lock.position(f"{name}@npm:{version_range}")
        if position is not None:
            positions[position] = None
        elif not is_local(version_range) and len(lock.named(name)) == 1:
            # The project's `resolutions` replace the range.
            positions[lock.named(name)[0]] = None
    return positions


def _descriptors(lock: Lock, entries: Iterable[_Entry]) -> dict[str, str]:
    """The positions by name and range of packages with several versions."""
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
            entry, section = _new_entry(line["header"]), ""
        elif kind == "section":
            section = line["section"]
        elif kind == "version" and entry is not None:
            entry.version = line["version"]
        elif kind == "range" and entry is not None and section in _REQUIRED:
            entry.requires.append((line["name"].strip('"'), line["range"].strip('"')))
        elif kind == "other" and line["other"].strip():
            warnings.add(f"an invalid line: {line['other'].strip()[:100]!r}")
    if entry is not None:
        yield entry


def _new_entry(header: str) -> _Entry:
    descriptors = [descriptor.strip().strip('"') for descriptor in header.split(", ")]
    name, version_range = split_descriptor(descriptors[0])
    if version_range.startswith("npm:") and "@" in version_range[5:]:
        name = split_descriptor(version_range[4:])[0]
    return _Entry(descriptors, name, is_local=is_local(version_range))


def _later(text: str) -> Iterator[_Entry]:
    document = parse_yaml(_BULK_2.sub("", text))
    for key, value in document.items() if isinstance(document, dict) else ():
        if key == "__metadata" or not isinstance(value, dict):
            continue
        name, version_range = split_descriptor(_string(value, "resolution") or key)
        requires = value.get("dependencies")
        wants = requires.items() if isinstance(requires, dict) else ()
        yield _Entry(
            [descriptor.strip() for descriptor in key.split(", ")],
            name,
            _string(value, "version"),
            [(n, w) for n, w in wants if isinstance(w, str)],
            directory=_directory(version_range),
            is_local=is_local(version_range),
        )


def _directory(resolution: str) -> str | None:
    if not resolution.startswith("workspace:"):
        return None
    directory = resolution.removeprefix("workspace:")
    return "" if directory == "." else directory


def _string(value: dict[str, Any], key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""
