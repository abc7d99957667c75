"""Resolves JavaScript and TypeScript imports by path, by compiler aliases, or to packages of the
same repository."""

from collections.abc import Collection, Iterator, Mapping

from agentjobs_dependencies.imports.javascript.tsconfig import NO_ALIASES, Aliases, read_aliases
from agentjobs_dependencies.imports.resolver import Target, below, join, parent_directory
from agentjobs_dependencies.model import ParsedManifest

EXTENSIONS = (
    *(".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts"),
    *(".json", ".vue", ".svelte"),
)
# Extensions of compiled files and of their possible sources.
_SOURCE_EXTENSIONS = {
    ".js": (".ts", ".tsx", ".d.ts"),
    ".jsx": (".tsx",),
    ".mjs": (".mts",),
    ".cjs": (".cts",),
}
# Entry points of packages that do not declare one.
_ENTRIES = ("src/index", "index", "lib/index", "src/main", "src/lib/index", "src")


class JavaScriptResolver:
    def __init__(
        self,
        paths: Collection[str],
        manifests: Mapping[str, ParsedManifest],
        configs: Mapping[str, bytes],
    ) -> None:
        self._paths = paths
        self._configs = configs
        self._packages = {
            manifest.project: (parent_directory(path), manifest.notes)
            for path, manifest in sorted(manifests.items(), reverse=True)
            if manifest.ecosystem == "npm" and manifest.project and path.endswith("package.json")
        }
        self._aliases: dict[str, Aliases] = {}
        self._configured: dict[str, str] = {}

    def find_scopes(self, path: str) -> tuple[str, str]:
        """The wide scope is the directory whose configuration applies."""
        directory = parent_directory(path)
        return directory, self._configured_in(directory) + "/"

    def is_narrow(self, name: str) -> bool:
        return name.startswith(".")

    def locate(self, scope: str, name: str) -> Target:
        plain = name.partition("?")[0]
        if plain.startswith("."):
            path = join(scope, plain)
            file = self._file(path)
            return (file,) if file else path or name
        aliases = self._aliases.get(scope) or self._read_aliases(scope)
        candidates = (self._file(path) for path in aliases.paths_for(plain))
        file = next((path for path in candidates if path), "") or self._in_package(plain)
        return (file,) if file else _parse_package(plain)

    def _configured_in(self, directory: str) -> str:
        """The nearest directory with a configuration, or the repository's root."""
        configured = self._configured.get(directory)
        if configured is None:
            configured = directory
            while configured and not self._config_in(configured):
                configured = parent_directory(configured)
            self._configured[directory] = configured
        return configured

    def _config_in(self, directory: str) -> str:
        configs = (below(directory, name) for name in ("tsconfig.json", "jsconfig.json"))
        return next((path for path in configs if path in self._configs), "")

    def _read_aliases(self, scope: str) -> Aliases:
        config = self._config_in(scope[:-1])
        aliases = read_aliases(config, self._configs) if config else NO_ALIASES
        self._aliases[scope] = aliases
        return aliases

    def _in_package(self, name: str) -> str:
        package = _parse_package(name)
        directory, notes = self._packages.get(package, (None, {}))
        if directory is None:
            return ""
        rest = name[len(package) + 1 :]
        declared = [notes[key] for key in ("source", "types", "module", "main") if key in notes]
        paths = (rest, f"src/{rest}", f"lib/{rest}") if rest else (*declared, *_ENTRIES)
        files = (self._file(join(directory, path)) for path in paths)
        return next((file for file in files if file), "")

    def _file(self, path: str) -> str:
        return next((file for file in candidate_files(path) if file in self._paths), "")


def candidate_files(path: str) -> Iterator[str]:
    """The files that a path without extension, or with that of a compiled file, may mean."""
    yield path
    stem, dot, extension = path.rpartition(".")
    for source_extension in _SOURCE_EXTENSIONS.get(dot + extension, ()):
        yield stem + source_extension
    for extension in EXTENSIONS:
        yield path + extension
    for extension in EXTENSIONS:
        yield below(path, "index" + extension)


def _parse_package(name: str) -> str:
    if "://" in name:
        return name
    return "/".join(name.split("/", 2)[: 2 if name.startswith("@") else 1])
