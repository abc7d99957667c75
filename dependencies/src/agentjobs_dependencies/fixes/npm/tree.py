"""The dependency tree of package-lock.json (format 3): which copy each requirement gets. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentjobs_dependencies.fixes.npm import package_json
from agentjobs_dependencies.formats.npm.package_lock import find_location

Packages = Mapping[str, Any]

_MODULES = "node_modules/"


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """The package at `requirer` requires `name` in the range `spec` and gets `resolved_path`."""

    requirer: str
    section: str
    name: str
    spec: str
    resolved_path: str

    @property
    def is_ours(self) -> bool:
        """Whether the project, a workspace or a directory of the repository requires it."""
        return is_local(self.requirer)

    @property
    def parent(self) -> str:
        return self.requirer.rpartition(_MODULES)[2]


def is_local(path: str) -> bool:
    return "node_modules" not in path.split("/")


def find_copies(packages: Packages, package: str) -> dict[str, dict[str, Any]]:
    """Installed copies by path, without links and the repository's own directories."""
    return {
        path: entry
        for path, entry in packages.items()
        if not is_local(path) and not entry.get("link") and read_name(path, entry) == package
    }


def read_name(path: str, entry: Mapping[str, Any]) -> str:
    """The path of an alias has another name."""
    return str(entry.get("name") or path.rpartition(_MODULES)[2])


def find_requirements(packages: Packages, copies: Mapping[str, Any]) -> list[Requirement]:
    """The requirements that get one of these copies."""
    names = {path.rpartition(_MODULES)[2] for path in copies}
    return [
        requirement
        for path in packages
        for requirement in _requirements(packages, path, names)
        if requirement.resolved_path in copies
    ]


def _requirements(packages: Packages, path: str, names: set[str]) -> Iterator[Requirement]:
    for name, (section, spec) in package_json.requirements(packages[path]).items():
        if name in names and (section != "devDependencies" or is_local(path)):
            resolved_path = find_location(packages, path, name)
            if resolved_path is not None:
                yield Requirement(path, section, name, spec, resolved_path)


def members(lock: Mapping[str, Any]) -> Iterator[str]:
    """The repository's own directories in the lock file."""
    packages, dependencies = lock.get("packages"), lock.get("dependencies")
    if isinstance(packages, dict):
        yield from (path for path in packages if path and is_local(path))
    elif isinstance(dependencies, dict):
        for entry in dependencies.values():
            version = entry.get("version") if isinstance(entry, dict) else None
            if isinstance(version, str) and version.startswith("file:"):
                yield version.removeprefix("file:")


def versions(packages: Packages) -> set[tuple[str, str]]:
    return {
        (read_name(path, entry), str(entry.get("version")))
        for path, entry in packages.items()
        if not is_local(path) and not entry.get("link")
    }
