"""Resolves Go imports to package directories by the module paths of `go.mod` files."""

from collections.abc import Collection, Mapping

from agentjobs_dependencies.imports.resolver import NO_TARGET, Target, below, join, parent_directory
from agentjobs_dependencies.model import ParsedManifest


class GoResolver:
    """The first file of a package's directory by name represents the package."""

    def __init__(self, paths: Collection[str], manifests: Mapping[str, ParsedManifest]) -> None:
        self._first: dict[str, str] = {}
        for path in paths:
            if path.endswith(".go") and not path.endswith("_test.go"):
                directory = parent_directory(path)
                self._first[directory] = min(self._first.get(directory, path), path)
        self._modules = {
            manifest.project: parent_directory(path)
            for path, manifest in sorted(manifests.items(), reverse=True)
            if manifest.ecosystem == "Go" and manifest.project and path.endswith("go.mod")
        }

    def find_scopes(self, path: str) -> tuple[str, str]:
        # No directory is called "/", so the scopes cannot collide.
        return parent_directory(path), "/"

    def is_narrow(self, name: str) -> bool:
        return name.startswith(".")

    def locate(self, scope: str, name: str) -> Target:
        if name == "C":
            return NO_TARGET
        if name.startswith("."):
            return self._package(join(scope, name), name)
        module, rest = name, ""
        while module:
            directory = self._modules.get(module)
            if directory is not None:
                return self._package(below(directory, rest) if rest else directory, name)
            module, _, last = module.rpartition("/")
            rest = f"{last}/{rest}" if rest else last
        return name

    def _package(self, directory: str, name: str) -> Target:
        first = self._first.get(directory)
        return (first,) if first else name
