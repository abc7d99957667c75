"""Chooses the version that suits a project: what it requires must be what the project supports."""

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentjobs_dependencies.fixes import java, tree
from agentjobs_dependencies.fixes.go.requirements import add_v, read_go_mod
from agentjobs_dependencies.fixes.model import Candidate, CannotFix, Fix
from agentjobs_dependencies.fixes.python.runtime import MINORS, supported_pythons
from agentjobs_dependencies.versions import npm, pypi

_MAX_NODE_MAJOR = 60


def choose_candidate(fix: Fix, root: Path) -> Fix:
    """The fix with the first candidate that suits the project. Raises CannotFix if none does."""
    if fix.ecosystem not in _CHECKS or not fix.candidates:
        return fix
    check = _CHECKS[fix.ecosystem](fix, root)
    reasons: list[str] = []
    for candidate in fix.candidates:
        reason = check(candidate)
        if reason is None:
            why = " ".join((fix.why, *reasons)).strip()
            return dataclasses.replace(fix, new=candidate.version, hashes=candidate.hashes, why=why)
        reasons.append(reason)
    raise CannotFix(f"no version suits the project: {' '.join(reasons)}")


# For a candidate, why the project cannot use it; None if it can.
_Check = Callable[[Candidate], str | None]


def _check_python(fix: Fix, root: Path) -> _Check:
    pythons = supported_pythons(root, fix.manifest)

    def check(candidate: Candidate) -> str | None:
        for python in pythons:
            if _is_too_old(python, candidate.requires):
                needs = f"{candidate.version} needs Python {candidate.requires}"
                return f"{needs}, and the project supports {python}."
        return None

    return check


def _is_too_old(python: str, requires: str) -> bool:
    """The resolver decides about Pythons that are too new."""
    # Any patch version counts: a project seldom names one.
    allowed = [minor for minor in MINORS if pypi.allows(requires, f"{minor}.99")]
    is_allowed = pypi.allows(requires, f"{python}.99")
    return not is_allowed and any(_numbers(python) < _numbers(minor) for minor in allowed)


def _check_node(fix: Fix, root: Path) -> _Check:
    engines = _nearest(root, fix.manifest, "package.json", json.loads).get("engines")
    supported = engines.get("node") if isinstance(engines, dict) else None
    lowest = None
    if isinstance(supported, str):
        majors = (f"{major}.999.999" for major in range(_MAX_NODE_MAJOR))
        lowest = next((major for major in majors if npm.allows(supported, major)), None)

    def check(candidate: Candidate) -> str | None:
        if lowest is None or npm.allows(candidate.requires, lowest) is not False:
            return None
        needs = f"{candidate.version} needs Node.js {candidate.requires}"
        return f"{needs}, and the project supports {lowest.partition('.')[0]}."

    return check


def _check_go(fix: Fix, root: Path) -> _Check:
    """The go command decides about the version of Go."""
    try:
        excluded = read_go_mod(tree.read(tree.resolve_file(root, fix.manifest))).excluded
    except CannotFix:
        excluded = set()

    def check(candidate: Candidate) -> str | None:
        version = add_v(candidate.version)
        if (fix.package, version) not in excluded:
            return None
        return f"{fix.manifest} excludes {version}: remove that `exclude` if it is not needed."

    return check


def _check_rust(fix: Fix, root: Path) -> _Check:
    manifest = _nearest(root, fix.manifest, "Cargo.toml", tomllib.loads)
    workspace = manifest.get("workspace")
    shared = workspace.get("package") if isinstance(workspace, dict) else None
    declared = [
        table.get("rust-version")
        for table in (manifest.get("package"), shared)
        if isinstance(table, dict)
    ]
    # A package may have the one of its workspace.
    supported = next((specifier for specifier in declared if isinstance(specifier, str)), None)

    def check(candidate: Candidate) -> str | None:
        if supported is None or _numbers(candidate.requires) <= _numbers(supported):
            return None
        needs = f"{candidate.version} needs Rust {candidate.requires}"
        return f"{needs}, and the project supports {supported}."

    return check


def _check_java(fix: Fix, root: Path) -> _Check:
    supported = java.supported_release(root, fix.manifest)

    def check(candidate: Candidate) -> str | None:
        needed = None if supported is None else java.needed_release(fix, candidate.version)
        if supported is None or needed is None or needed <= supported:
            return None
        needs = f"{candidate.version} needs Java {needed}"
        return f"{needs}, and the project compiles for {supported}."

    return check


_CHECKS: Mapping[str, Callable[[Fix, Path], _Check]] = {
    "PyPI": _check_python,
    "npm": _check_node,
    "Go": _check_go,
    "crates.io": _check_rust,
    "Maven": _check_java,
}


def _numbers(version: str) -> tuple[int, ...]:
    """`1.88` is the same version as `1.88.0`."""
    return tuple(map(int, [*re.findall(r"\d{1,9}", version), 0, 0, 0][:3]))


def _nearest(root: Path, manifest: str, name: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    """The first file of this name next to the manifest or above it; empty if there is none."""
    directory = (root / manifest).parent
    while directory.is_relative_to(root):
        path = directory / name
        if path.is_file() and not path.is_symlink():
            try:
                document = parse(tree.read(path))
            except (ValueError, RecursionError):
                return {}
            return document if isinstance(document, dict) else {}
        directory = directory.parent
    return {}
