"""The tree that package-lock.json (format 3) describes: who gets which copy of a package. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cve_fixer.npm import package_json

Packages = Mapping[str, Any]

_MODULES = "node_modules/"


@dataclass(frozen=True, slots=True, order=True)
class Ask:
    """Whoever lies at `asking` wants `name` in the range `spec` and gets what lies at `given`."""

    asking: str
    section: str
    name: str
    spec: str
    given: str

    @property
    def is_ours(self) -> bool:
        """Asked by the project itself, one of its workspaces or a directory of the repository."""
        return is_local(self.asking)

    @property
    def parent(self) -> str:
        return self.asking.rpartition(_MODULES)[2]


def is_local(path: str) -> bool:
    return "node_modules" not in path.split("/")


def copies_of(packages: Packages, package: str) -> dict[str, dict[str, Any]]:
    """By place: links and the repository's own directories are no copies."""
    return {
        path: entry
        for path, entry in packages.items()
        if not is_local(path) and not entry.get("link") and name_of(path, entry) == package
    }


def name_of(path: str, entry: Mapping[str, Any]) -> str:
    """An alias lies under another name than its own."""
    return str(entry.get("name") or path.rpartition(_MODULES)[2])


def asks_for(packages: Packages, places: Mapping[str, Any]) -> list[Ask]:
    """Who gets what lies at these places."""
    names = {path.rpartition(_MODULES)[2] for path in places}
    return [ask for path in packages for ask in _asks(packages, path, names) if ask.given in places]


def _asks(packages: Packages, path: str, names: set[str]) -> Iterator[Ask]:
    for name, (section, spec) in package_json.asked(packages[path]).items():
        if name in names and (section != "devDependencies" or is_local(path)):
            given = _found_from(packages, path, name)
            if given is not None:
                yield Ask(path, section, name, spec, given)


def _found_from(packages: Packages, path: str, name: str) -> str | None:
    """As Node.js looks for it: beside, then in every directory above."""
    for directory in _upwards(path):
        place = f"{directory}/{_MODULES}{name}" if directory else f"{_MODULES}{name}"
        if place in packages:
            return place
    return None


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        above, inside, _ = path.rpartition(_MODULES)
        path = above.rstrip("/") if inside else path.rpartition("/")[0]
    yield ""


def members(lock: Mapping[str, Any]) -> Iterator[str]:
    """The repository's own directories that the lock file knows."""
    packages, old = lock.get("packages"), lock.get("dependencies")
    if isinstance(packages, dict):
        yield from (path for path in packages if path and is_local(path))
    elif isinstance(old, dict):
        for entry in old.values():
            version = entry.get("version") if isinstance(entry, dict) else None
            if isinstance(version, str) and version.startswith("file:"):
                yield version.removeprefix("file:")


def versions(packages: Packages) -> set[tuple[str, str]]:
    return {
        (name_of(path, entry), str(entry.get("version")))
        for path, entry in packages.items()
        if not is_local(path) and not entry.get("link")
    }
