"""Resolves Java imports to the file named after the class in directories named after the package.

Of several such files, the one nearest to the importing file wins.
"""

from collections.abc import Collection, Iterable

from agentjobs_dependencies.imports.resolver import Target, common_parts

# More files with the same name in directories with the same name are ignored as copies.
_MAX_CANDIDATES = 64
_MAX_CLASS_DEPTH = 4


class JavaResolver:
    def __init__(self, paths: Collection[str]) -> None:
        self._classes: dict[str, list[str]] = {}
        self._packages: dict[str, dict[str, str]] = {}
        for path in sorted([path for path in paths if path.endswith(".java")]):
            directory, _, name = path.rpartition("/")
            last = directory.rpartition("/")[2]
            candidates = self._classes.setdefault(f"{last}/{name}", [])
            if len(candidates) < _MAX_CANDIDATES:
                candidates.append(path)
            packages = self._packages.setdefault(last, {})
            if len(packages) < _MAX_CANDIDATES:
                packages.setdefault(directory, path)

    def find_scopes(self, path: str) -> tuple[str, str]:
        """The directory that contains `src`, or the top-level directory."""
        module, src, _ = path.partition("/src/")
        scope = module if src else path.partition("/")[0]
        return scope, scope

    def is_narrow(self, name: str) -> bool:  # noqa: ARG002 - both scopes are the same
        return False

    def locate(self, scope: str, name: str) -> Target:
        is_member = name.startswith("static ")
        name = name.removeprefix("static ")
        file = self._class(scope, name.removesuffix(".*"))
        if not file and name.endswith(".*") and not is_member:
            file = self._package(scope, name.removesuffix(".*"))
        return (file,) if file else _parse_package(name)

    def _class(self, scope: str, name: str) -> str:
        """The file of the class, or of the class that encloses it or its member."""
        for _ in range(_MAX_CLASS_DEPTH):
            suffix = name.replace(".", "/") + ".java"
            parts = suffix.rsplit("/", 2)
            candidates = self._classes.get("/".join(parts[-2:]), ()) if len(parts) > 1 else ()
            if file := _nearest(scope, (path for path in candidates if _ends_with(path, suffix))):
                return file
            name = name.rpartition(".")[0]
        return ""

    def _package(self, scope: str, name: str) -> str:
        suffix = name.replace(".", "/")
        candidates = self._packages.get(suffix.rpartition("/")[2], {})
        nearest = _nearest(scope, (path for path in candidates if _ends_with(path, suffix)))
        return candidates[nearest] if nearest else ""


def _ends_with(path: str, suffix: str) -> bool:
    return path == suffix or path.endswith("/" + suffix)


def _nearest(scope: str, paths: Iterable[str]) -> str:
    """The path that shares most directories; of several, the first."""
    return max(paths, key=lambda path: common_parts(scope, path), default="")


def _parse_package(name: str) -> str:
    """Classes start with a capital letter; otherwise the last name counts as the class."""
    parts = name.split(".")
    for at, part in enumerate(parts):
        if part[:1].isupper():
            return ".".join(parts[:at]) or name
    return ".".join(parts[:-1]) or name
