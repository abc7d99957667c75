"""Reads uv.lock: entries with a directory as source are projects, the rest are packages."""

import re
from collections.abc import Iterator
from typing import Any

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.pypi.lock_entries import add_entry, entry_key, read_packages
from agentjobs_dependencies.formats.pypi.names import ECOSYSTEM, exact_version
from agentjobs_dependencies.formats.text import Warnings, parse_lock_toml
from agentjobs_dependencies.model import ParsedManifest, Requirement, Root, Scope
from agentjobs_dependencies.versions.pypi import normalize_name

# URLs and hashes of files.
_BULK = re.compile(rb'^(?:    \{ (?:url|path) = "[^\n]*\},?|sdist = \{[^\n]*\})\r?\n', re.MULTILINE)

# Kinds of sources in the repository.
_LOCAL = ("editable", "virtual", "directory")


def read_uv_lock(content: bytes) -> ParsedManifest:
    document, reason = parse_lock_toml(content, _BULK)
    warnings = Warnings((reason,) if reason else ())
    entries = read_packages(document)
    lock = Lock(warnings)
    projects = []
    for entry in entries:
        directory = project_directory(entry)
        if directory is None:
            add_entry(lock, entry)
        else:
            projects.append((directory, entry))
    for entry in entries:
        lock.require(entry_key(entry), (at for at in _required(lock, entry)))
    return ParsedManifest(
        ECOSYSTEM,
        project=next((str(e.get("name", "")) for at, e in projects if not at), ""),
        requirements=limit_requirements(
            (r for _, e in projects for r in _requirements(e)), warnings
        ),
        packages=lock.packages(),
        roots=tuple(Root(at, tuple(dict.fromkeys(_required(lock, e)))) for at, e in projects),
        warnings=warnings.all(),
    )


def project_directory(entry: dict[str, Any]) -> str | None:
    """The directory of a project in the repository; None for a package."""
    source = entry.get("source")
    if isinstance(source, dict):
        for kind in _LOCAL:
            path = source.get(kind)
            if isinstance(path, str):
                return "" if path == "." else path.removesuffix("/")
    return None


def _required(lock: Lock, entry: dict[str, Any]) -> Iterator[int]:
    """A package with only one locked version is referenced by its name alone. Extras are listed
    only if they are used, so they are included."""
    tables = [entry.get("optional-dependencies"), entry.get("dev-dependencies")]
    lists = [entry.get("dependencies")]
    lists += [values for table in tables if isinstance(table, dict) for values in table.values()]
    for requirements in lists:
        for required in _list(requirements):
            if not isinstance(required, dict):
                continue
            position = lock.position(entry_key(required))
            if position is not None:
                yield position
            elif "version" not in required and isinstance(required.get("name"), str):
                yield from lock.named(normalize_name(required["name"]))


def _requirements(entry: dict[str, Any]) -> Iterator[Requirement]:
    metadata = entry.get("metadata")
    if not isinstance(metadata, dict):
        return
    for required in _list(metadata.get("requires-dist")):
        is_extra = isinstance(required, dict) and "extra ==" in str(required.get("marker"))
        yield from _requirement(required, "optional" if is_extra else "runtime")
    groups = metadata.get("requires-dev")
    for group in groups.values() if isinstance(groups, dict) else ():
        for required in _list(group):
            yield from _requirement(required, "dev")


def _requirement(required: Any, scope: Scope) -> Iterator[Requirement]:
    if isinstance(required, dict) and isinstance(required.get("name"), str):
        specifier = str(required.get("specifier", ""))
        yield Requirement(
            normalize_name(required["name"]), specifier, exact_version(specifier), scope
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
