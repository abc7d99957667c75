"""Resolves Rust paths down the modules of a crate of the repository, to the last with a file."""

from collections.abc import Collection, Iterable, Mapping

from agentjobs_dependencies.imports.resolver import NO_TARGET, Target, below, join, parent_directory
from agentjobs_dependencies.model import ParsedManifest

# Submodules are next to these files; those of other files are in a directory of their name.
_ROOT_FILES = ("lib.rs", "main.rs", "mod.rs")
# Directories of a crate in which every file is a separate crate.
_SINGLE_FILE_CRATES = ("tests", "examples", "benches", "bin")
_STANDARD_CRATES = frozenset({"std", "core", "alloc", "proc_macro", "test"})
_WIDE = ("crate::", *(f"{name}::" for name in sorted(_STANDARD_CRATES)))


class RustResolver:
    def __init__(self, paths: Collection[str], manifests: Mapping[str, ParsedManifest]) -> None:
        self._paths = paths
        self._crate_directories = {
            parent_directory(path)
            for path, manifest in manifests.items()
            if manifest.ecosystem == "crates.io" and path.endswith("Cargo.toml")
        }
        self._crates = {
            manifest.project.replace("-", "_"): below(parent_directory(path), "src")
            for path, manifest in sorted(manifests.items(), reverse=True)
            if manifest.ecosystem == "crates.io"
            and manifest.project
            and path.endswith("Cargo.toml")
        }
        self._roots: dict[str, str] = {}

    def find_scopes(self, path: str) -> tuple[str, str]:
        """The file, because `self` differs for each file, and the crate."""
        return path, self._find_root(parent_directory(path)) + "/"

    def is_narrow(self, name: str) -> bool:
        return not name.startswith(_WIDE)

    def locate(self, scope: str, name: str) -> Target:
        if name.startswith("mod:"):
            return self._declared(scope, name[4:])
        parts = name.split("::")
        if parts[0] in _STANDARD_CRATES:
            return parts[0]
        if parts[0] == "crate":
            return self._down_crate(scope[:-1], parts[1:])
        if parts[0] == "self":
            return self._down(self._child_directory(scope), parts[1:])
        if parts[0] == "super":
            return self._resolve_super(scope, parts)
        return self._named(scope, parts)

    def _declared(self, scope: str, name: str) -> Target:
        name, _, file = name.partition("=")
        if file:
            path = join(parent_directory(scope), file)
            return (path,) if path in self._paths else path
        parts = name.split("::")
        path = below(self._child_directory(scope), "/".join(parts))
        target = self._module(path)
        return (target,) if target else path

    def _named(self, scope: str, parts: list[str]) -> Target:
        """A crate of the repository, a module of this file, or an external crate."""
        if not parts[0]:
            parts = parts[1:]
        elif target := self._down(self._child_directory(scope), parts):
            return target
        name = parts[0] if parts else ""
        source = self._crates.get(name)
        if source is not None:
            return self._down_crate(source, parts[1:]) or name
        # The import of variants of a type in this file.
        return NO_TARGET if name[:1].isupper() or name == "*" else name

    def _resolve_super(self, scope: str, parts: list[str]) -> Target:
        path = scope
        while parts and parts[0] == "super":
            parts = parts[1:]
            directory = parent_directory(path)
            if path.rpartition("/")[2] == "mod.rs":
                directory = parent_directory(directory)
            path = self._find_module_file(directory)
            if not path:
                return NO_TARGET
        return self._down(self._child_directory(path), parts) or (path,)

    def _down_crate(self, source: str, parts: list[str]) -> Target:
        root = self._find_module_file(source)
        return self._down(source, parts) or ((root,) if root else NO_TARGET)

    def _down(self, directory: str, parts: Iterable[str]) -> Target:
        """The deepest module along the path that has a file."""
        target = ""
        for part in parts:
            inner = self._module(below(directory, part))
            if not inner:
                break
            target, directory = inner, below(directory, part)
        return (target,) if target else NO_TARGET

    def _module(self, path: str) -> str:
        for file in (path + ".rs", path + "/mod.rs"):
            if file in self._paths:
                return file
        return ""

    def _find_module_file(self, directory: str) -> str:
        """The file whose submodules are in the directory."""
        for name in _ROOT_FILES:
            if below(directory, name) in self._paths:
                return below(directory, name)
        return directory + ".rs" if directory + ".rs" in self._paths else ""

    def _child_directory(self, path: str) -> str:
        directory, _, name = path.rpartition("/")
        if name in _ROOT_FILES or self._is_single_file_crate(directory):
            return directory
        return path.removesuffix(".rs")

    def _is_single_file_crate(self, directory: str) -> bool:
        above, _, last = directory.rpartition("/")
        if last == "bin":
            above = parent_directory(above)
        return last in _SINGLE_FILE_CRATES and above in self._crate_directories

    def _find_root(self, directory: str) -> str:
        """The source directory of the crate."""
        root = self._roots.get(directory)
        if root is None:
            root = directory
            while root and not self._is_root(root):
                root = parent_directory(root)
            self._roots[directory] = root
        return root

    def _is_root(self, directory: str) -> bool:
        has_root_file = any(below(directory, name) in self._paths for name in _ROOT_FILES[:2])
        return has_root_file or parent_directory(directory) in self._crate_directories
