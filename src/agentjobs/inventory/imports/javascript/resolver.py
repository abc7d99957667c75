"""Where a JavaScript or TypeScript import leads: by path, by the compiler's aliases, or to a
package of the same repository."""

from collections.abc import Collection, Iterator, Mapping

from agentjobs.inventory.imports.javascript.tsconfig import NO_ALIASES, Aliases, read_aliases
from agentjobs.inventory.imports.resolver import Place, below, directory_of, join
from agentjobs.inventory.model import ManifestFacts

ENDINGS = (
    *(".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts"),
    *(".json", ".vue", ".svelte"),
)
# A name that a compiler writes, and what it was written as.
_WRITTEN_AS = {
    ".js": (".ts", ".tsx", ".d.ts"),
    ".jsx": (".tsx",),
    ".mjs": (".mts",),
    ".cjs": (".cts",),
}
# Where a package of the repository begins that does not say so.
_ENTRIES = ("src/index", "index", "lib/index", "src/main", "src/lib/index", "src")


class JavaScriptFiles:
    def __init__(
        self,
        paths: Collection[str],
        manifests: Mapping[str, ManifestFacts],
        configs: Mapping[str, bytes],
    ) -> None:
        self._paths = paths
        self._configs = configs
        self._packages = {
            facts.project: (directory_of(path), facts.notes)
            for path, facts in sorted(manifests.items(), reverse=True)
            if facts.ecosystem == "npm" and facts.project and path.endswith("package.json")
        }
        self._aliases: dict[str, Aliases] = {}
        self._configured: dict[str, str] = {}

    def scopes_of(self, path: str) -> tuple[str, str]:
        """The wide one is the directory whose configuration holds."""
        directory = directory_of(path)
        return directory, self._configured_in(directory) + "/"

    def is_narrow(self, name: str) -> bool:
        return name.startswith(".")

    def locate(self, scope: str, name: str) -> Place:
        plain = name.partition("?")[0]
        if plain.startswith("."):
            path = join(scope, plain)
            found = self._file(path)
            return (found,) if found else path or name
        aliases = self._aliases.get(scope) or self._read_aliases(scope)
        candidates = (self._file(path) for path in aliases.paths_for(plain))
        found = next((path for path in candidates if path), "") or self._in_package(plain)
        return (found,) if found else _package_of(plain)

    def _configured_in(self, directory: str) -> str:
        """The nearest directory with a configuration; the repository's own without any."""
        found = self._configured.get(directory)
        if found is None:
            found = directory
            while found and not self._config_in(found):
                found = directory_of(found)
            self._configured[directory] = found
        return found

    def _config_in(self, directory: str) -> str:
        spellings = (below(directory, name) for name in ("tsconfig.json", "jsconfig.json"))
        return next((path for path in spellings if path in self._configs), "")

    def _read_aliases(self, scope: str) -> Aliases:
        config = self._config_in(scope[:-1])
        aliases = read_aliases(config, self._configs) if config else NO_ALIASES
        self._aliases[scope] = aliases
        return aliases

    def _in_package(self, name: str) -> str:
        package = _package_of(name)
        directory, notes = self._packages.get(package, (None, {}))
        if directory is None:
            return ""
        rest = name[len(package) + 1 :]
        said = [notes[key] for key in ("source", "types", "module", "main") if key in notes]
        tries = (rest, f"src/{rest}", f"lib/{rest}") if rest else (*said, *_ENTRIES)
        found = (self._file(join(directory, each)) for each in tries)
        return next((path for path in found if path), "")

    def _file(self, path: str) -> str:
        return next((each for each in spellings(path) if each in self._paths), "")


def spellings(path: str) -> Iterator[str]:
    """The files that a path without its ending, or with a compiled one, may mean."""
    yield path
    stem, dot, ending = path.rpartition(".")
    for written in _WRITTEN_AS.get(dot + ending, ()):
        yield stem + written
    for each in ENDINGS:
        yield path + each
    for each in ENDINGS:
        yield below(path, "index" + each)


def _package_of(name: str) -> str:
    if "://" in name:
        return name
    return "/".join(name.split("/", 2)[: 2 if name.startswith("@") else 1])
