"""Checks lock files: no index URLs, hashes for every pin, and pyproject.toml is satisfied."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def required_by(document: dict[str, Any], lock: str) -> list[Requirement]:
    """`requirements-agents.lock` contains only the group `agents`, the others the project."""
    if Path(lock).name == "requirements-agents.lock":
        texts = document["dependency-groups"]["agents"]
    else:
        texts = document["project"]["dependencies"]
    return [Requirement(text) for text in texts]


def main(paths: list[str]) -> None:
    document = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    faults = [
        fault for path in paths for fault in faults_in(Path(path), required_by(document, path))
    ]
    if faults:
        sys.exit("\n".join(faults))
    print("Lock files: no index named, all pins hashed.")


if __name__ == "__main__":
    main(sys.argv[1:])
