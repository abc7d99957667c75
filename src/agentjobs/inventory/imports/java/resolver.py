"""Where a Java import leads: to the file that is named after the class, in the directories that
are named after its package. In which of several, the nearest decides."""

from collections.abc import Collection, Iterable

from agentjobs.inventory.imports.resolver import Place, common_parts

# Many files of one name in directories of one name: copies, of which some are as good as all.
_MAX_ALIKE = 64
_DEEPEST_CLASS = 4


class JavaFiles:
    def __init__(self, paths: Collection[str]) -> None:
        self._classes: dict[str, list[str]] = {}
        self._packages: dict[str, dict[str, str]] = {}
        for path in sorted([path for path in paths if path.endswith(".java")]):
            directory, _, name = path.rpartition("/")
            last = directory.rpartition("/")[2]
            alike = self._classes.setdefault(f"{last}/{name}", [])
            if len(alike) < _MAX_ALIKE:
                alike.append(path)
            packages = self._packages.setdefault(last, {})
            if len(packages) < _MAX_ALIKE:
                packages.setdefault(directory, path)

    def scopes_of(self, path: str) -> tuple[str, str]:
        """What lies above a module's `src` is the module; without it, the topmost directory."""
        module, src, _ = path.partition("/src/")
        scope = module if src else path.partition("/")[0]
        return scope, scope

    def is_narrow(self, name: str) -> bool:  # noqa: ARG002 - both scopes are the same
        return False

    def locate(self, scope: str, name: str) -> Place:
        is_member = name.startswith("static ")
        name = name.removeprefix("static ")
        found = self._class(scope, name.removesuffix(".*"))
        if not found and name.endswith(".*") and not is_member:
            found = self._package(scope, name.removesuffix(".*"))
        return (found,) if found else _package_of(name)

    def _class(self, scope: str, name: str) -> str:
        """The file of the class, or of the one that it or the member belongs to."""
        for _ in range(_DEEPEST_CLASS):
            wanted = name.replace(".", "/") + ".java"
            parts = wanted.rsplit("/", 2)
            alike = self._classes.get("/".join(parts[-2:]), ()) if len(parts) > 1 else ()
            if found := _nearest(scope, (path for path in alike if _ends(path, wanted))):
                return found
            name = name.rpartition(".")[0]
        return ""

    def _package(self, scope: str, name: str) -> str:
        wanted = name.replace(".", "/")
        alike = self._packages.get(wanted.rpartition("/")[2], {})
        near = _nearest(scope, (path for path in alike if _ends(path, wanted)))
        return alike[near] if near else ""


def _ends(path: str, wanted: str) -> bool:
    return path == wanted or path.endswith("/" + wanted)


def _nearest(scope: str, paths: Iterable[str]) -> str:
    """The one that shares most directories; of several such, the first."""
    return max(paths, key=lambda path: common_parts(scope, path), default="")


def _package_of(name: str) -> str:
    """Classes are written with a capital; without any, the last name is taken for the class."""
    parts = name.split(".")
    for at, part in enumerate(parts):
        if part[:1].isupper():
            return ".".join(parts[:at]) or name
    return ".".join(parts[:-1]) or name
