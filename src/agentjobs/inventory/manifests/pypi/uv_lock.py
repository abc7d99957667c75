"""Reads uv.lock: its projects are the entries that come from a directory, the rest are packages."""

import re
from collections.abc import Iterator
from typing import Any

from agentjobs.inventory.manifests.bounds import within_bounds
from agentjobs.inventory.manifests.locks import Lock
from agentjobs.inventory.manifests.pypi.names import (
    ECOSYSTEM,
    exact_version,
    is_version,
    normalized,
)
from agentjobs.inventory.manifests.text import Warnings, parse_lock_toml
from agentjobs.inventory.model import ParsedManifest, Requirement, Root, Scope

# Where files lie and what they hash to.
_BULK = re.compile(rb'^(?:    \{ (?:url|path) = "[^\n]*\},?|sdist = \{[^\n]*\})\r?\n', re.MULTILINE)

# A source in the repository, and its path.
_LOCAL = ("editable", "virtual", "directory")


def read_uv_lock(content: bytes) -> ParsedManifest:
    document, reason = parse_lock_toml(content, _BULK)
    warnings = Warnings((reason,) if reason else ())
    entries = [each for each in _list(document.get("package")) if isinstance(each, dict)]
    lock = Lock(warnings)
    projects = []
    for entry in entries:
        directory = _directory(entry)
        if directory is None:
            _add(lock, entry)
        else:
            projects.append((directory, entry))
    for entry in entries:
        lock.require(_key(entry), (at for at in _required(lock, entry)))
    return ParsedManifest(
        ECOSYSTEM,
        project=next((str(e.get("name", "")) for at, e in projects if not at), ""),
        requirements=within_bounds((r for _, e in projects for r in _requirements(e)), warnings),
        packages=lock.packages(),
        roots=tuple(Root(at, tuple(dict.fromkeys(_required(lock, e)))) for at, e in projects),
        warnings=warnings.all(),
    )


def _add(lock: Lock, entry: dict[str, Any]) -> None:
    name, version = entry.get("name"), entry.get("version")
    if isinstance(version, str) and not is_version(version):
        lock.warnings.add(f"{str(name)[:100]} is locked at {version[:100]!r}, which is no version")
    lock.add(_key(entry), normalized(name) if isinstance(name, str) else name, version)


def _key(entry: dict[str, Any]) -> tuple[str, str]:
    return str(entry.get("name")), str(entry.get("version"))


def _directory(entry: dict[str, Any]) -> str | None:
    """Where a project of this repository lies; None for a package from elsewhere."""
    source = entry.get("source")
    if isinstance(source, dict):
        for kind in _LOCAL:
            path = source.get(kind)
            if isinstance(path, str):
                return "" if path == "." else path.removesuffix("/")
    return None


def _required(lock: Lock, entry: dict[str, Any]) -> Iterator[int]:
    """A package that is locked in one version only is asked for by its name alone. Extras stand
    in the file only where something asks for them, so they count."""
    tables = [entry.get("optional-dependencies"), entry.get("dev-dependencies")]
    lists = [entry.get("dependencies")]
    lists += [each for table in tables if isinstance(table, dict) for each in table.values()]
    for each in lists:
        for wanted in _list(each):
            if not isinstance(wanted, dict):
                continue
            position = lock.position(_key(wanted))
            if position is not None:
                yield position
            elif "version" not in wanted and isinstance(wanted.get("name"), str):
                yield from lock.named(normalized(wanted["name"]))


def _requirements(entry: dict[str, Any]) -> Iterator[Requirement]:
    metadata = entry.get("metadata")
    if not isinstance(metadata, dict):
        return
    for wanted in _list(metadata.get("requires-dist")):
        is_extra = isinstance(wanted, dict) and "extra ==" in str(wanted.get("marker"))
        yield from _requirement(wanted, "optional" if is_extra else "runtime")
    groups = metadata.get("requires-dev")
    for group in groups.values() if isinstance(groups, dict) else ():
        for wanted in _list(group):
            yield from _requirement(wanted, "dev")


def _requirement(wanted: Any, scope: Scope) -> Iterator[Requirement]:
    if isinstance(wanted, dict) and isinstance(wanted.get("name"), str):
        specifier = str(wanted.get("specifier", ""))
        yield Requirement(normalized(wanted["name"]), specifier, exact_version(specifier), scope)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
