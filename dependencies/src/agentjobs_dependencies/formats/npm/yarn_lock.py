"""Reads yarn.lock of yarn 1 (a custom format) and of later versions (YAML), which have the same
layout. The keys of an entry are descriptors, `name@range`, for which it is installed."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.locks import MAX_PACKAGES, Lock
from agentjobs_dependencies.formats.npm.ranges import (
    ECOSYSTEM,
    is_local,
    is_version,
    requirement,
    split_descriptor,
)
from agentjobs_dependencies.formats.text import UnreadableManifest, Warnings, decode
from agentjobs_dependencies.model import ParsedManifest, Root

# Larger than any lock file of yarn.
_MAX_CHARACTERS = 16 << 20
_ENTRY = re.compile(
    r"^(?:\? (?P<long>[^\n]+)\n:|(?P<header>[^\s#?][^\n]*):)\n"
    r"(?P<body>(?>(?:[ \t][^\n]*+(?:\n|$))+))",
    re.MULTILINE,
)
_VERSION = re.compile(r"^  version:? \"?([^\"\n]+)\"?$", re.MULTILINE)
_RESOLUTION = re.compile(r"^  resolution: \"?([^\"\n]+)\"?$", re.MULTILINE)
_REQUIRED = re.compile(
    r"^  (?:dependencies|optionalDependencies):\n((?:    [^\n]+(?:\n|$))+)", re.MULTILINE
)
_REQUIREMENT = re.compile(r"^    \"?([^\"\s]+?)\"?:? \"?([^\"\n]*)\"?$", re.MULTILINE)
_OTHER_SOURCE = re.compile(r"(?!npm:)[a-z+]+:|.*/")
_COMMENT = re.compile(r"^#.*$", re.MULTILINE)
_METADATA = "__metadata"

# A name and a range without the protocol `npm:`.
Descriptor = tuple[str, str]


class YarnEntry(NamedTuple):
    """`name` is the real one of an alias. `source` is a protocol with what follows it, such as
    `npm:1.0.0`, `patch:…` or a directory. `directory` is that of a project of the repository."""

    name: str
    version: str
    descriptors: tuple[Descriptor, ...]
    requires: tuple[Descriptor, ...]
    source: str
    span: tuple[int, int]

    @property
    def is_published(self) -> bool:
        return self.source.startswith("npm:")

    @property
    def directory(self) -> str | None:
        is_project = self.source.startswith("workspace:")
        return self.source.removeprefix("workspace:") if is_project else None


def read_entries(text: str) -> Iterator[YarnEntry]:
    """`text` has no carriage returns."""
    for match in _ENTRY.finditer(text):
        if match["header"] != _METADATA:
            yield _read_entry(match)


def split_plain(descriptor: str) -> Descriptor:
    name, version_range = split_descriptor(descriptor)
    return name, plain_range(version_range)


def plain_range(version_range: str) -> str:
    """Removes the protocol, which old files omit; an alias keeps it."""
    return version_range if "@" in version_range[5:] else version_range.removeprefix("npm:")


def read_yarn_lock(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    if len(text) > _MAX_CHARACTERS:
        raise UnreadableManifest(
            f"larger than {_MAX_CHARACTERS >> 20} MiB: too large for a yarn.lock"
        )
    text = text.replace("\r\n", "\n")
    is_first = f"\n{_METADATA}:" not in f"\n{text}"
    entries = list(islice(read_entries(text), MAX_PACKAGES))
    if text.strip() and not entries and is_first and "# yarn lockfile v1" not in text[:500]:
        raise UnreadableManifest("not a yarn.lock: it has neither the header nor an entry")
    lock = Lock(Warnings(reasons))
    _warn_of_other_lines(text, lock.warnings)
    for entry in entries:
        _add(lock, entry)
    for entry in entries:
        lock.require(entry.descriptors[0], _required(lock, entry))
    projects = [entry for entry in entries if entry.directory is not None]
    project_requirements = (
        requirement(name, version_range, "runtime")
        for entry in projects
        for name, version_range in entry.requires
        if not is_local(version_range)
    )
    return ParsedManifest(
        ECOSYSTEM,
        requirements=limit_requirements(project_requirements, lock.warnings),
        packages=lock.packages(),
        roots=tuple(
            Root(
                "" if entry.directory == "." else str(entry.directory),
                tuple(_required(lock, entry)),
            )
            for entry in projects
        ),
        notes=_positions(lock, entries) if is_first else {},
        warnings=lock.warnings.all(),
    )


def _read_entry(match: re.Match[str]) -> YarnEntry:
    header, body = match["long"] or match["header"], match["body"]
    descriptors = tuple(split_plain(part) for part in header.replace('"', "").split(", "))
    version, resolution = _VERSION.search(body), _RESOLUTION.search(body)
    name, spec = descriptors[0]
    if resolution is not None:
        name, source = split_descriptor(resolution[1])
    elif spec.startswith("npm:"):
        name, source = split_descriptor(spec.removeprefix("npm:"))[0], "npm:"
    else:
        source = spec if _OTHER_SOURCE.match(spec) else "npm:"
    required = "".join(_REQUIRED.findall(body))
    return YarnEntry(
        name,
        version[1] if version else "",
        descriptors,
        tuple((name, plain_range(spec)) for name, spec in _REQUIREMENT.findall(required)),
        source,
        match.span(),
    )


def _warn_of_other_lines(text: str, warnings: Warnings) -> None:
    for line in _COMMENT.sub("", _ENTRY.sub("", text)).split("\n"):
        if line.strip():
            warnings.add(f"an invalid line: {line.strip()[:100]!r}")


def _add(lock: Lock, entry: YarnEntry) -> None:
    if is_local(entry.source):
        return
    if entry.version and not is_version(entry.version):
        reason = f"{entry.name[:100]} has the invalid version {entry.version[:100]!r}"
        lock.warnings.add(reason)
    for descriptor in entry.descriptors:
        lock.add(descriptor, entry.name, entry.version)


def _required(lock: Lock, entry: YarnEntry) -> dict[int, None]:
    positions: dict[int, None] = {}
    for name, version_range in entry.requires:
        position = lock.position((name, version_range))
        if position is not None:
            positions[position] = None
        elif not is_local(version_range) and len(lock.named(name)) == 1:
            # The project's `resolutions` replace the range.
            positions[lock.named(name)[0]] = None
    return positions


def _positions(lock: Lock, entries: Iterable[YarnEntry]) -> dict[str, str]:
    """The positions by name and range of packages with several versions."""
    return {
        f"{entry.name}@{descriptor[1]}": str(lock.position(descriptor))
        for entry in entries
        if len(lock.named(entry.name)) > 1
        for descriptor in entry.descriptors
    }
