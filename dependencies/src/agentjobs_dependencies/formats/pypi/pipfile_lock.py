"""Reads Pipfile.lock: two lists of packages, without their requirements."""

from collections.abc import Mapping
from typing import Any

from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.pypi.names import ECOSYSTEM, exact_version
from agentjobs_dependencies.formats.text import parse_json, table_at
from agentjobs_dependencies.model import ParsedManifest, Root, Scope
from agentjobs_dependencies.versions.pypi import normalize_name


def read_pipfile_lock(content: bytes) -> ParsedManifest:
    document, warnings = parse_json(content)
    lock = Lock(warnings)
    direct = [
        *_add(lock, table_at(document, "default"), "runtime"),
        *_add(lock, table_at(document, "develop"), "dev"),
    ]
    return ParsedManifest(
        ECOSYSTEM,
        packages=lock.packages(),
        roots=(Root("", tuple(dict.fromkeys(direct))),) if direct else (),
        # pipenv sets an index for direct requirements; used if there is no Pipfile.
        notes={"roots": "guessed"} if direct else {},
        warnings=lock.warnings.all(),
    )


def _add(lock: Lock, section: Mapping[str, Any], scope: Scope) -> list[int]:
    direct = []
    for name, entry in section.items():
        written = entry.get("version", "") if isinstance(entry, dict) else None
        if not isinstance(written, str):
            lock.warnings.add(f"the entry {name[:100]!r} is left out: it is not a version")
            continue
        version = exact_version(written)
        if version is None:
            continue  # From a git repository or a directory: no version is pinned.
        lock.add(name, normalize_name(name), version, scope)
        position = lock.position(name)
        if entry.get("index") is not None and position is not None:
            direct.append(position)
    return direct
