"""Checks lock files: no index URLs, hashes for every pin, and each pyproject.toml is satisfied."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

GROUPS = {"requirements-agents.lock": "agents", "requirements-docs.lock": "docs"}
PARTS = ("service", "runtime", "dependencies", "worker", "kubernetes", "clients/python")
PROJECTS = ("pyproject.toml", *(f"{part}/pyproject.toml" for part in PARTS))
NAMES_AN_INDEX = re.compile(
    r"(?:^|\s)(?:-i|-f|--(?:extra-)?index-url|--find-links)\b|\b(?:https?|file)://"
)
PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?P<rest>.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL
)


def faults_in(path: Path, required: list[Requirement]) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if NAMES_AN_INDEX.search(line):
            yield f"{path}:{number}: names a package index: {line.strip()}"
    pins = {canonicalize_name(pin["name"]): pin for pin in PIN.finditer(text)}
    for name, pin in pins.items():
        if "--hash=sha256:" not in pin["rest"]:
            yield f"{path}: {name} has no hash"
    for requirement in required:
        locked = pins.get(canonicalize_name(requirement.name))
        if locked is None or not requirement.specifier.contains(locked["version"]):
            yield f"{path}: does not satisfy {requirement}; run `make lock`"


def required_by(documents: list[dict[str, Any]], lock: str) -> list[Requirement]:
    """A lock file of `GROUPS` contains only this group, the others the packages, and
    `requirements-dev.lock` their extras too."""
    group = GROUPS.get(Path(lock).name)
    if group:
        return [Requirement(text) for text in documents[0]["dependency-groups"][group]]
    projects = [document["project"] for document in documents if "project" in document]
    # Packages of this repository come from it, not from the lock file.
    own = {project["name"] for project in projects}
    texts = [text for project in projects for text in project["dependencies"]]
    if Path(lock).name == "requirements-dev.lock":
        extras = [project.get("optional-dependencies", {}) for project in projects]
        texts += [
            text for extra in extras for requirements in extra.values() for text in requirements
        ]
    required = [Requirement(text) for text in texts]
    return [requirement for requirement in required if requirement.name not in own]


def main(paths: list[str]) -> None:
    documents = [tomllib.loads(Path(name).read_text(encoding="utf-8")) for name in PROJECTS]
    faults = [
        fault for path in paths for fault in faults_in(Path(path), required_by(documents, path))
    ]
    if faults:
        sys.exit("\n".join(faults))
    print("Lock files: no index named, all pins hashed.")


if __name__ == "__main__":
    main(sys.argv[1:])
