"""Entries of lock files that poetry and uv write: tables with a name and a version."""

from typing import Any

from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.pypi.names import is_version
from agentjobs_dependencies.model import Scope
from agentjobs_dependencies.versions.pypi import normalize_name


def read_packages(document: dict[str, Any]) -> list[dict[str, Any]]:
    entries = document.get("package")
    return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []


def add_entry(lock: Lock, entry: dict[str, Any], scope: Scope = "runtime") -> None:
    name, version = entry.get("name"), entry.get("version")
    if isinstance(version, str) and not is_version(version):
        lock.warnings.add(f"{str(name)[:100]} has the invalid version {version[:100]!r}")
    key = normalize_name(name) if isinstance(name, str) else name
    lock.add(entry_key(entry), key, version, scope)


def entry_key(entry: dict[str, Any]) -> tuple[str, str]:
    return str(entry.get("name")), str(entry.get("version"))
