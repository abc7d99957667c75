"""Determines whether the imports of a commit lead to its dependencies.

They do if a source file imports the package, or a package that requires it. The opposite is claimed
only if the names of all packages involved, all imports and all requirements are known.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from agentjobs_dependencies.formats import detect_kind
from agentjobs_dependencies.imports.external_names import ExternalNames
from agentjobs_dependencies.model import Dependency, Imported, Locked, ParsedManifest

# Lock files with all requirements of each package, including peer dependencies.
_COMPLETE_LOCKS = frozenset(
    {"uv.lock", "poetry.lock", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml"}
)

_Key = tuple[str, str, str | None]


def mark_imported(
    dependencies: Iterable[Dependency],
    manifests: Mapping[str, ParsedManifest],
    externals: ExternalNames,
) -> tuple[Dependency, ...]:
    dependencies = tuple(dependencies)
    packages = _Packages(
        externals,
        go_modules=frozenset(d.name for d in dependencies if d.ecosystem == "Go"),
        aliased=frozenset(_aliased_packages(manifests.values())),
    )
    by_key: dict[_Key, Imported] = {}
    for path, manifest in manifests.items():
        own = [packages.imported(manifest.ecosystem, package.name) for package in manifest.packages]
        states = _spread(manifest.packages, own)
        is_complete = _has_all_requirements(path, manifest)
        for locked, state in zip(manifest.packages, states, strict=True):
            key = (path, locked.name, locked.version)
            by_key[key] = state if is_complete else _without_no(state)
    marked = []
    for package in dependencies:
        own_key = (package.manifest, package.name, package.version)
        # Another package may require it.
        state = by_key.get(own_key) or _without_no(
            packages.imported(package.ecosystem, package.name)
        )
        is_default = state == package.imported
        marked.append(package if is_default else replace(package, imported=state))
    return tuple(marked)


class _Packages:
    """Whether source files import a package by name."""

    def __init__(
        self, externals: ExternalNames, go_modules: Collection[str], aliased: Collection[str]
    ) -> None:
        self._externals = externals
        self._go_modules = frozenset(_find_modules(externals.of("go"), go_modules))
        self._aliased = aliased
        self._finders: Mapping[str, Callable[[str], Imported]] = {
            "PyPI": self._python,
            "npm": self._npm,
            "Go": lambda name: "yes" if name in self._go_modules else "unknown",
            "crates.io": self._rust,
        }
        self._known: dict[tuple[str, str], Imported] = {}

    def imported(self, ecosystem: str, name: str) -> Imported:
        key = (ecosystem, name)
        state = self._known.get(key)
        if state is None:
            finder = self._finders.get(ecosystem)
            state = self._known[key] = finder(name) if finder else "unknown"
        return state

    def _python(self, name: str) -> Imported:
        imports = self._externals.of("python")
        modules = _known_modules().get(name)
        if modules is None:
            # The usual name; others are possible.
            return "yes" if name.replace("-", "_") in imports else "unknown"
        if not imports.isdisjoint(modules):
            return "yes"
        is_shared = any(module.removesuffix(".") in imports for module in modules)
        return "unknown" if is_shared else self._absent("python")

    def _npm(self, name: str) -> Imported:
        if name in self._externals.of("javascript"):
            return "yes"
        # Compilers import these without a statement in the source.
        is_implicit = name.startswith("@types/") or name in {"react", "preact", "tslib"}
        is_renamed = name in self._aliased
        return "unknown" if is_implicit or is_renamed else self._absent("javascript")

    def _rust(self, name: str) -> Imported:
        # Paths without `use` are not read, and a crate may have another name than its package.
        is_used = name.replace("-", "_") in self._externals.of("rust")
        return "yes" if is_used else "unknown"

    def _absent(self, family: str) -> Imported:
        return "no" if family in self._externals.complete else "unknown"


@cache
def _known_modules() -> dict[str, tuple[str, ...]]:
    """The modules that well-known distributions of PyPI install, by normalized name: `pyyaml`
    installs `yaml`. A dot at the end marks a namespace of several distributions."""
    text = Path(__file__).with_name("import_names.txt").read_text("utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: tuple(modules) for name, *modules in rows}


def _find_modules(imports: Iterable[str], modules: Collection[str]) -> Iterable[str]:
    """The module of each imported Go package: the longest that is a prefix of its path."""
    for path in imports:
        prefix = path
        while prefix and prefix not in modules:
            prefix = prefix.rpartition("/")[0]
        if prefix:
            yield prefix


def _aliased_packages(manifests: Iterable[ParsedManifest]) -> Iterable[str]:
    """Packages that sources import by another name."""
    for manifest in manifests:
        if manifest.ecosystem == "npm":
            yield from (r.name for r in manifest.requirements if r.specifier.startswith("npm:"))


def _has_all_requirements(path: str, manifest: ParsedManifest) -> bool:
    if detect_kind(path) not in _COMPLETE_LOCKS or manifest.warnings:
        return False
    # The first version of package-lock.json has neither projects nor peer dependencies.
    return manifest.ecosystem != "npm" or bool(manifest.roots)


def _spread(packages: Sequence[Locked], own: Sequence[Imported]) -> list[Imported]:
    """What a package requires is imported if the package is, and may be if the package may be."""
    states = list(own)
    for state in ("yes", "unknown"):
        queue = [at for at, reached in enumerate(states) if reached == state]
        for at in queue:  # Grows during the loop.
            for required in packages[at].requires:
                if 0 <= required < len(states) and _STRENGTH[states[required]] < _STRENGTH[state]:
                    states[required] = state
                    queue.append(required)
    return states


_STRENGTH: Mapping[Imported, int] = {"no": 0, "unknown": 1, "yes": 2}


def _without_no(state: Imported) -> Imported:
    return "unknown" if state == "no" else state
