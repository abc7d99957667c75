"""Where a Go import leads: to the package's directory, by the module paths of `go.mod` files."""

from collections.abc import Collection, Mapping

from agentjobs.inventory.imports.resolver import NOWHERE, Place, below, directory_of, join
from agentjobs.inventory.model import ManifestFacts


class GoFiles:
    """A package is as many files as its directory has; the first by name stands for it."""

    def __init__(self, paths: Collection[str], manifests: Mapping[str, ManifestFacts]) -> None:
        self._first: dict[str, str] = {}
        for path in paths:
            if path.endswith(".go") and not path.endswith("_test.go"):
                directory = directory_of(path)
                self._first[directory] = min(self._first.get(directory, path), path)
        self._modules = {
            facts.project: directory_of(path)
            for path, facts in sorted(manifests.items(), reverse=True)
            if facts.ecosystem == "Go" and facts.project and path.endswith("go.mod")
        }

    def scopes_of(self, path: str) -> tuple[str, str]:
        # The mark keeps the two kinds apart.
        return directory_of(path), "/"

    def is_narrow(self, name: str) -> bool:
        return name.startswith(".")

    def locate(self, scope: str, name: str) -> Place:
        if name == "C":
            return NOWHERE
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

    def _package(self, directory: str, name: str) -> Place:
        first = self._first.get(directory)
        return (first,) if first else name
