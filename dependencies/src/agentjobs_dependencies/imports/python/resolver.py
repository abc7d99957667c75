"""Resolves Python imports through the directories that may be on the file's import path.

These are the file's parent directories that are not packages, nearest first, then the directories
of the repository's projects and their `src`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from agentjobs_dependencies.imports.resolver import Target, below, parent_directory
from agentjobs_dependencies.model import ParsedManifest

_SOURCE_DIRECTORIES = ("src", "lib", "python")


class _Module(NamedTuple):
    """`target` is that of the module's name; `package` is the path prefix of members that may be
    modules themselves."""

    target: Target
    package: str | None = None


class PythonResolver:
    def __init__(self, paths: Collection[str], manifests: Mapping[str, ParsedManifest]) -> None:
        # Modules and packages by their paths without extensions.
        self._modules: dict[str, str] = {}
        self._packages: set[str] = set()
        # Directories with modules in or below them.
        self._directories: set[str] = set()
        # Names that an absolute import may start with.
        self._top_names: set[str] = set()
        self._add_modules(paths)
        self._add_directories()
        projects = {
            parent_directory(path)
            for path, manifest in manifests.items()
            if manifest.ecosystem == "PyPI"
        }
        self._roots = tuple(sorted(self._source_roots(projects)))
        self._nearest: dict[str, str] = {}
        self._located: dict[tuple[str, str], _Module] = {}

    def _add_modules(self, paths: Collection[str]) -> None:
        """A package takes precedence over a module, and both over .pyi and .pyx files."""
        files = [path for path in paths if path.endswith(".py")]
        packages = [path for path in files if f"/{path}".endswith("/__init__.py")]
        self._modules = {path[:-3]: path for path in files}
        for path in packages:
            del self._modules[path[:-3]]
        self._modules |= {path[:-12]: path for path in packages}
        self._packages = {path[:-12] for path in packages}
        for path in sorted([path for path in paths if path.endswith((".pyi", ".pyx"))]):
            self._modules.setdefault(path[:-4].removesuffix("/__init__"), path)

    def _add_directories(self) -> None:
        parts = [module.rpartition("/") for module in self._modules]
        self._top_names = {last for _, _, last in parts}
        for parent in {parent for parent, _, _ in parts}:
            directory = parent
            while directory and directory not in self._directories:
                self._directories.add(directory)
                directory, _, last = directory.rpartition("/")
                self._top_names.add(last)

    def _source_roots(self, projects: set[str]) -> Iterator[str]:
        yield from projects
        for directory in self._directories:
            last = directory.rpartition("/")[2]
            if last in _SOURCE_DIRECTORIES and directory not in self._packages:
                yield directory

    def find_scopes(self, path: str) -> tuple[str, str]:
        directory = parent_directory(path)
        # The trailing slash keeps narrow and wide scopes apart.
        return directory, self._nearest_root(directory) + "/"

    def is_narrow(self, name: str) -> bool:
        return name.startswith(".")

    def locate(self, scope: str, name: str) -> Target:
        """`name` as the finder writes it: `a.b`, `a:b,c`, `..a:b`."""
        module, _, members = name.partition(":")
        key = (scope, module)
        module_target = self._located.get(key)
        if module_target is None:
            relative = module.startswith(".")
            path = self._relative(scope, module) if relative else self._absolute(scope, module)
            module_target = self._located[key] = self._locate_module(path, module)
        if not members or module_target.package is None:
            return module_target.target
        names = [module_target.package + member for member in members.split(",")]
        inner = [self._modules[path] for path in names if path in self._modules]
        if not inner:
            # `from . import a` resolves to the name `a` if nothing else exists.
            is_missing = isinstance(module_target.target, str) and not module.strip(".")
            return names[0] if is_missing else module_target.target
        needs_package = len(inner) < len(names) and isinstance(module_target.target, tuple)
        return (*inner, *module_target.target) if needs_package else tuple(inner)

    def _relative(self, scope: str, module: str) -> str | None:
        rest = module.lstrip(".")
        for _ in range(len(module) - len(rest) - 1):
            if not scope:
                return None
            scope = parent_directory(scope)
        return below(scope, rest.replace(".", "/")) if rest else scope

    def _absolute(self, scope: str, module: str) -> str | None:
        top = module.partition(".")[0]
        root = self._root_for(scope[:-1], top) if top in self._top_names else None
        return None if root is None else below(root, module.replace(".", "/"))

    def _locate_module(self, path: str | None, module: str) -> _Module:
        external = module.partition(".")[0] or path or module
        if path is None:
            return _Module(external)
        own = self._modules.get(path)
        if own is not None and path not in self._packages and "__init__" not in own:
            return _Module((own,))
        file = own or self._parent_package(path, module)
        return _Module((file,) if file else external, f"{path}/" if path else "")

    def _root_for(self, scope: str, top: str) -> str | None:
        """The first directory on the import path of the scope's files that contains the name."""
        root = scope
        while not self._has(root, top):
            if not root:
                return next((root for root in self._roots if self._has(root, top)), None)
            root = self._nearest_root(parent_directory(root))
        return root

    def _has(self, directory: str, top: str) -> bool:
        path = below(directory, top)
        return path in self._modules or path in self._directories

    def _nearest_root(self, directory: str) -> str:
        """The directory, or its nearest parent that is not a package."""
        root = self._nearest.get(directory)
        if root is None:
            root = directory
            while root and root in self._packages:
                root = parent_directory(root)
            self._nearest[directory] = root
        return root

    def _parent_package(self, path: str, module: str) -> str:
        """The package of a module that is not a Python file."""
        for _ in range(module.strip(".").count(".")):
            path = parent_directory(path)
            if file := self._modules.get(path):
                return file
        return ""
