"""Updates one package in Pipfile.lock and keeps every other byte.

The file lists pins with hashes, as a requirements file does, and is checked like one. pipenv does
not run: it resolves only for the Python that runs it, which is seldom the project's.
"""

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from agentjobs_dependencies.fixes import json_text, tree
from agentjobs_dependencies.fixes.apply_fixes import one_by_one
from agentjobs_dependencies.fixes.markdown import code, escape
from agentjobs_dependencies.fixes.model import CannotFix, Fix, Outcome
from agentjobs_dependencies.fixes.python import (
    pip_compile,
    pyproject,
    requirement_text,
    requirements,
)
from agentjobs_dependencies.fixes.python.requirement_lines import update_pin
from agentjobs_dependencies.versions.pypi import is_same, normalize_name

Lock = dict[str, Any]

_MINIMUM_PYTHON = re.compile(r"\s*>=\s*(\d+\.\d+)(?:\.\d+)?\s*")
_MINIMUM_MARKER = re.compile(r"python_version >= '\d+\.\d+'")
_PIPFILE_SECTIONS = {"packages": "default", "dev-packages": "develop"}
_NOT_HASHED = ("source", "packages", "dev-packages", "requires", "scripts", "pipfile", "pipenv")
_DEFAULT_SOURCE = {"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": True}


@one_by_one
def apply(fix: Fix, root: Path) -> Outcome:
    path, text = tree.open_file(root, fix.manifest)
    lock = json_text.read_object(text, fix.manifest)
    before = as_requirements(lock)
    after = update_pin(before, fix)
    settings = requirements.install_settings(fix, root)
    resolution = pip_compile.resolve_pins(before, after, None, fix, settings)
    outcome = Outcome(
        fixed=[fix], changes=list(resolution.changes), unproven=list(resolution.unproven)
    )
    new_lock = with_pins(lock, resolution.text, fix)
    pipfile = path.with_name("Pipfile")
    if pipfile.is_file() and not pipfile.is_symlink():
        new_lock = _allow_version(pipfile, root, new_lock, fix, outcome)
    tree.write(path, json_text.patch(text, lock, new_lock))
    return outcome


def _sections(lock: Lock) -> dict[str, dict[str, Any]]:
    return {
        name: section
        for name, section in lock.items()
        if name != "_meta" and isinstance(section, dict)
    }


def as_requirements(lock: Lock) -> str:
    """The pins of all sections, without repetitions."""
    lines: dict[str, None] = {}
    for section in _sections(lock).values():
        for name, entry in section.items():
            version = entry.get("version") if isinstance(entry, dict) else None
            if not isinstance(version, str) or not version.startswith("=="):
                continue
            extras = entry.get("extras") or []
            marker = entry.get("markers")
            parts = [
                f"{name}[{','.join(map(str, extras))}]{version}" if extras else f"{name}{version}",
                f" ; {marker}" if isinstance(marker, str) else "",
                *(f" \\\n    --hash={digest}" for digest in entry.get("hashes") or []),
            ]
            lines["".join(parts) + "\n"] = None
    return "".join(lines)


def with_pins(lock: Lock, text: str, fix: Fix) -> Lock:
    """The lock file with the package's new version, and with packages that only `text` has."""
    package = normalize_name(fix.package)
    known = {normalize_name(name) for section in _sections(lock).values() for name in section}
    added = {
        name: {
            "hashes": sorted(requirement_text.hashes(block)),
            "version": f"=={requirement_text.pins(block)[name]}",
        }
        for name, block in requirement_text.blocks(text).items()
        if name not in known
    }
    new_lock = dict(lock)
    for section_name, section in _sections(lock).items():
        changed = {
            name: _with_version(entry, fix)
            for name, entry in section.items()
            if normalize_name(name) == package and is_same(_version(entry), fix.old)
        }
        if changed:
            new_lock[section_name] = dict(sorted({**section, **changed, **added}.items()))
    return new_lock


def _version(entry: Any) -> str:
    return str(entry.get("version", "")).removeprefix("==") if isinstance(entry, dict) else ""


def _with_version(entry: dict[str, Any], fix: Fix) -> dict[str, Any]:
    new = {**entry, "version": f"=={fix.new}", "hashes": sorted(fix.hashes)}
    requires = (candidate.requires for candidate in fix.candidates if candidate.version == fix.new)
    minimum = _MINIMUM_PYTHON.fullmatch(next(requires, ""))
    marker = entry.get("markers")
    # pipenv writes the Pythons of the version here, and other conditions in other forms.
    if minimum and isinstance(marker, str) and _MINIMUM_MARKER.fullmatch(marker):
        new["markers"] = f"python_version >= '{minimum[1]}'"
    return new


def _allow_version(path: Path, root: Path, lock: Lock, fix: Fix, outcome: Outcome) -> Lock:
    """Edit the Pipfile if it excludes the new version; its hash is part of the lock file."""
    text = tree.read(path)
    edited = pyproject.allow_version(text, fix.package, fix.new)
    if edited == text:
        return lock
    name = path.relative_to(root).as_posix()
    try:
        digest = lock["_meta"]["hash"]["sha256"]
    except (KeyError, TypeError):
        digest = None
    if pipfile_hash(text) != digest:
        raise CannotFix(f"{fix.manifest} does not belong to {name}: run `pipenv lock`")
    tree.write(path, edited)
    outcome.changes.append(f"{code(name)} excluded {escape(fix.new)} and now allows it.")
    meta = {**lock["_meta"], "hash": {"sha256": pipfile_hash(edited)}}
    return {**lock, "_meta": meta}


def pipfile_hash(text: str) -> str:
    """Computes the hash as pipenv does."""
    pipfile = tomllib.loads(text.replace("\r\n", "\n"))
    content: dict[str, Any] = {
        "_meta": {
            "sources": pipfile.get("source") or [_DEFAULT_SOURCE],
            "requires": pipfile.get("requires", {}),
        },
        **{name: pipfile.get(table, {}) for table, name in _PIPFILE_SECTIONS.items()},
        **{name: table for name, table in pipfile.items() if name not in _NOT_HASHED},
    }
    encoded = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(encoded.encode()).hexdigest()
