"""Brings the Cargo files of a repository together: what members inherit from their workspace, and
where the crates lie that a lock file knows only by name."""

import posixpath
import re
from collections.abc import Mapping
from itertools import islice

import msgspec

from agentjobs.inventory.model import ParsedManifest, Requirement, Root

# Keys of `ParsedManifest.notes`; those that end in a colon are followed by a crate's name.
WORKSPACE = "workspace"
SHARED = "shared:"
OWN = "own:"

# The specifier of what a workspace decides, until it has been asked.
INHERITED = "workspace"

_ECOSYSTEM = "crates.io"
# Crates of one name; each lock file that knows the name looks through them.
_MAX_NAMESAKES = 200
_EXACT = re.compile(r"=\s*(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)")


def complete(facts: Mapping[str, ParsedManifest]) -> Mapping[str, ParsedManifest]:
    """The same facts; manifests with what they inherit, lock files with their projects."""
    workspaces: dict[str, dict[str, str]] = {}
    crates: dict[str, dict[str, None]] = {}
    ours = {path: facts[path] for path in sorted(facts) if facts[path].ecosystem == _ECOSYSTEM}
    for path, each in ours.items():
        directory = posixpath.dirname(path)
        if WORKSPACE in each.notes:
            workspaces[directory] = each.notes
        if each.project:
            crates.setdefault(each.project, {})[directory] = None
    done = {
        path: _with_roots(each, posixpath.dirname(path), crates)
        if each.packages
        else _inheriting(each, _nearest(workspaces, posixpath.dirname(path)))
        for path, each in ours.items()
    }
    return {path: done.get(path, each) for path, each in facts.items()}


def exact_version(specifier: str) -> str | None:
    found = _EXACT.fullmatch(specifier.strip())
    return found[1] if found else None


def _nearest(workspaces: Mapping[str, dict[str, str]], directory: str) -> dict[str, str]:
    while directory not in workspaces and directory:
        directory = posixpath.dirname(directory)
    return workspaces.get(directory, {})


def _inheriting(facts: ParsedManifest, shared: Mapping[str, str]) -> ParsedManifest:
    requirements = []
    for each in facts.requirements:
        if each.specifier != INHERITED:
            requirements.append(each)
            continue
        name, _, specifier = shared.get(SHARED + each.name, f"{each.name} ").partition(" ")
        if name:
            requirements.append(Requirement(name, specifier, exact_version(specifier), each.scope))
    return msgspec.structs.replace(facts, requirements=tuple(requirements))


def _with_roots(
    lock: ParsedManifest, here: str, crates: Mapping[str, dict[str, None]]
) -> ParsedManifest:
    roots = [
        Root(_directory(here, crates.get(key.removeprefix(OWN), {})), _positions(value))
        for key, value in lock.notes.items()
        if key.startswith(OWN)
    ]
    return msgspec.structs.replace(lock, roots=tuple(roots))


def _directory(here: str, candidates: dict[str, None]) -> str:
    """Where a crate lies, seen from the lock file: of several of that name the nearest below it."""
    prefix = f"{here}/" if here else ""
    if not candidates or here in candidates:
        return ""
    candidates = dict(islice(candidates.items(), _MAX_NAMESAKES))
    below = [each for each in candidates if each.startswith(prefix)]
    nearest = min(below or candidates, key=lambda each: (each.count("/"), each))
    return posixpath.relpath(f"/{nearest}", f"/{here}")


def _positions(noted: str) -> tuple[int, ...]:
    return tuple(int(place) for place in noted.split())
