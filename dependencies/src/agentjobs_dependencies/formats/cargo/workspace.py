"""Completes the Cargo files of a repository: requirements that members inherit from their
workspace, and directories of the crates in a lock file."""

import posixpath
import re
from collections.abc import Mapping
from itertools import islice

from agentjobs_dependencies.model import ParsedManifest, Requirement

# Keys of `ParsedManifest.notes`; those that end in a colon are followed by a crate's name.
WORKSPACE = "workspace"
SHARED = "shared:"

# The specifier of an inherited requirement until `complete` resolves it.
INHERITED = "workspace"

_ECOSYSTEM = "crates.io"
# Crates with the same name, all of which each lock file with the name compares.
_MAX_SAME_NAME = 200
_EXACT = re.compile(r"=\s*(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)")


def complete(manifests: Mapping[str, ParsedManifest]) -> Mapping[str, ParsedManifest]:
    """Manifests with inherited requirements, lock files with their projects."""
    workspaces: dict[str, dict[str, str]] = {}
    crates: dict[str, dict[str, None]] = {}
    cargo_files = {
        path: manifests[path]
        for path in sorted(manifests)
        if manifests[path].ecosystem == _ECOSYSTEM
    }
    for path, file in cargo_files.items():
        directory = posixpath.dirname(path)
        if WORKSPACE in file.notes:
            workspaces[directory] = file.notes
        if file.project:
            crates.setdefault(file.project, {})[directory] = None
    completed = {
        path: _with_roots(file, posixpath.dirname(path), crates)
        if file.packages
        else _with_inherited(file, _nearest(workspaces, posixpath.dirname(path)))
        for path, file in cargo_files.items()
    }
    return {path: completed.get(path, manifest) for path, manifest in manifests.items()}


def exact_version(specifier: str) -> str | None:
    match = _EXACT.fullmatch(specifier.strip())
    return match[1] if match else None


def _nearest(workspaces: Mapping[str, dict[str, str]], directory: str) -> dict[str, str]:
    while directory not in workspaces and directory:
        directory = posixpath.dirname(directory)
    return workspaces.get(directory, {})


def _with_inherited(manifest: ParsedManifest, shared: Mapping[str, str]) -> ParsedManifest:
    requirements = []
    for requirement in manifest.requirements:
        if requirement.specifier != INHERITED:
            requirements.append(requirement)
            continue
        name, _, specifier = shared.get(
            SHARED + requirement.name, f"{requirement.name} "
        ).partition(" ")
        if name:
            requirements.append(
                Requirement(name, specifier, exact_version(specifier), requirement.scope)
            )
    return manifest._replace(requirements=tuple(requirements))


def _with_roots(
    lock: ParsedManifest, here: str, crates: Mapping[str, dict[str, None]]
) -> ParsedManifest:
    """A lock file names the crate of each root instead of its directory."""
    roots = (
        root._replace(directory=_directory(here, crates.get(root.directory, {})))
        for root in lock.roots
    )
    return lock._replace(roots=tuple(roots))


def _directory(here: str, candidates: dict[str, None]) -> str:
    """The directory of a crate relative to the lock file: of several, the nearest below it."""
    prefix = f"{here}/" if here else ""
    if not candidates or here in candidates:
        return ""
    candidates = dict(islice(candidates.items(), _MAX_SAME_NAME))
    below = [path for path in candidates if path.startswith(prefix)]
    nearest = min(below or candidates, key=lambda path: (path.count("/"), path))
    return posixpath.relpath(f"/{nearest}", f"/{here}")
