"""Where a Python import leads: through the directories that may be on the path of its file.

Those are the ones above the file that are no packages, nearest first, then those of the projects
in the repository and their `src`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from agentjobs.inventory.imports.resolver import Place, below, directory_of
from agentjobs.inventory.model import ManifestFacts

_SOURCE_DIRECTORIES = ("src", "lib", "python")


class _Found(NamedTuple):
    """Where a module's own name leads; and what comes before its members' names, if they may be
    modules themselves."""

    whole: Place
    package: str | None = None


class PythonFiles:
    def __init__(self, paths: Collection[str], manifests: Mapping[str, ManifestFacts]) -> None:
        # Modules and packages by their paths without endings.
        self._modules: dict[str, str] = {}
        self._packages: set[str] = set()
        # Those with modules in or below them.
        self._directories: set[str] = set()
        # Whatever can stand first in an import.
        self._tops: set[str] = set()
        self._note_modules(paths)
        self._note_directories()
        projects = {directory_of(path) for path, facts in manifests.items() if _is_python(facts)}
        self._roots = tuple(sorted(self._source_roots(projects)))
        self._nearest: dict[str, str] = {}
        self._found: dict[tuple[str, str], _Found] = {}

    def _note_modules(self, paths: Collection[str]) -> None:
        """A package is preferred to a module of its name, and both to what stands in for them."""
        files = [path for path in paths if path.endswith(".py")]
        packages = [path for path in files if f"/{path}".endswith("/__init__.py")]
        self._modules = {path[:-3]: path for path in files}
        for path in packages:
            del self._modules[path[:-3]]
        self._modules |= {path[:-12]: path for path in packages}
        self._packages = {path[:-12] for path in packages}
        for path in sorted([path for path in paths if path.endswith((".pyi", ".pyx"))]):
            self._modules.setdefault(path[:-4].removesuffix("/__init__"), path)

    def _note_directories(self) -> None:
        parts = [module.rpartition("/") for module in self._modules]
        self._tops = {last for _, _, last in parts}
        for directory in {above for above, _, _ in parts}:
            each = directory
            while each and each not in self._directories:
                self._directories.add(each)
                each, _, last = each.rpartition("/")
                self._tops.add(last)

    def _source_roots(self, projects: set[str]) -> Iterator[str]:
        yield from projects
        for directory in self._directories:
            last = directory.rpartition("/")[2]
            if last in _SOURCE_DIRECTORIES and directory not in self._packages:
                yield directory

    def scopes_of(self, path: str) -> tuple[str, str]:
        directory = directory_of(path)
        # The mark keeps the two kinds apart.
        return directory, self._nearest_root(directory) + "/"

    def is_narrow(self, name: str) -> bool:
        return name.startswith(".")

    def locate(self, scope: str, name: str) -> Place:
        """`name` as the finder writes it: `a.b`, `a:b,c`, `..a:b`."""
        module, _, members = name.partition(":")
        key = (scope, module)
        found = self._found.get(key)
        if found is None:
            relative = module.startswith(".")
            path = self._relative(scope, module) if relative else self._absolute(scope, module)
            found = self._found[key] = self._found_at(path, module)
        if not members or found.package is None:
            return found.whole
        names = [found.package + member for member in members.split(",")]
        inner = [self._modules[each] for each in names if each in self._modules]
        if not inner:
            # `from . import a` leads to `a`, if there is nothing else.
            is_missing = isinstance(found.whole, str) and not module.strip(".")
            return names[0] if is_missing else found.whole
        needs_whole = len(inner) < len(names) and isinstance(found.whole, tuple)
        return (*inner, *found.whole) if needs_whole else tuple(inner)

    def _relative(self, scope: str, module: str) -> str | None:
        rest = module.lstrip(".")
        for _ in range(len(module) - len(rest) - 1):
            if not scope:
                return None
            scope = directory_of(scope)
        return below(scope, rest.replace(".", "/")) if rest else scope

    def _absolute(self, scope: str, module: str) -> str | None:
        top = module.partition(".")[0]
        root = self._root_for(scope[:-1], top) if top in self._tops else None
        return None if root is None else below(root, module.replace(".", "/"))

    def _found_at(self, path: str | None, module: str) -> _Found:
        outside = module.partition(".")[0] or path or module
        if path is None:
            return _Found(outside)
        own = self._modules.get(path)
        if own is not None and path not in self._packages and "__init__" not in own:
            return _Found((own,))
        above = own or self._above(path, module)
        return _Found((above,) if above else outside, f"{path}/" if path else "")

    def _root_for(self, scope: str, top: str) -> str | None:
        """The first directory on the path of the scope's files that has the name."""
        root = scope
        while not self._has(root, top):
            if not root:
                return next((root for root in self._roots if self._has(root, top)), None)
            root = self._nearest_root(directory_of(root))
        return root

    def _has(self, directory: str, top: str) -> bool:
        path = below(directory, top)
        return path in self._modules or path in self._directories

    def _nearest_root(self, directory: str) -> str:
        """The directory itself, or the first above it that is no package."""
        root = self._nearest.get(directory)
        if root is None:
            root = directory
            while root and root in self._packages:
                root = directory_of(root)
            self._nearest[directory] = root
        return root

    def _above(self, path: str, module: str) -> str:
        """The package that a module belongs to which is no Python file."""
        for _ in range(module.strip(".").count(".")):
            path = directory_of(path)
            if found := self._modules.get(path):
                return found
        return ""


def _is_python(facts: ManifestFacts) -> bool:
    return facts.ecosystem == "PyPI"
