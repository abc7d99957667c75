"""Reads poetry.lock. The direct requirements are only in pyproject.toml."""

import re
from typing import Any

from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.pypi.lock_entries import add_entry, entry_key, read_packages
from agentjobs_dependencies.formats.pypi.names import ECOSYSTEM
from agentjobs_dependencies.formats.text import Warnings, parse_lock_toml
from agentjobs_dependencies.model import ParsedManifest, Scope
from agentjobs_dependencies.versions.pypi import normalize_name

_BULK = re.compile(rb'^    \{ ?(?:file|url) = "[^\n]*\},?\r?\n', re.MULTILINE)


def read_poetry_lock(content: bytes) -> ParsedManifest:
    document, reason = parse_lock_toml(content, _BULK)
    lock = Lock(Warnings((reason,) if reason else ()))
    entries = read_packages(document)
    for entry in entries:
        if not _is_local(entry):
            add_entry(lock, entry, _scope(entry))
    for entry in entries:
        requires = entry.get("dependencies")
        names = [normalize_name(name) for name in requires] if isinstance(requires, dict) else []
        lock.require(entry_key(entry), lock.all_named(names))
    return ParsedManifest(ECOSYSTEM, packages=lock.packages(), warnings=lock.warnings.all())


def _scope(entry: dict[str, Any]) -> Scope:
    """Groups since Poetry 2, a category before 1.5; versions in between record neither."""
    groups = entry.get("groups")
    if isinstance(groups, list) and groups and "main" not in groups:
        return "dev"
    if entry.get("category") == "dev":
        return "dev"
    return "optional" if entry.get("optional") is True else "runtime"


def _is_local(entry: dict[str, Any]) -> bool:
    source = entry.get("source")
    return isinstance(source, dict) and source.get("type") in ("directory", "file")
