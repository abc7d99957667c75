"""Builds the module graph: resolves every import to a file of the repository or an external name.

Resolving depends on which paths exist, on manifests and on compiler configurations, but never on
the content of other source files.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from agentjobs_dependencies.imports.golang.resolver import GoResolver
from agentjobs_dependencies.imports.java.resolver import JavaResolver
from agentjobs_dependencies.imports.javascript.resolver import JavaScriptResolver
from agentjobs_dependencies.imports.javascript.tsconfig import CONFIG_MARK, is_config
from agentjobs_dependencies.imports.model import ModuleGraph, ParsedModule
from agentjobs_dependencies.imports.python.resolver import PythonResolver
from agentjobs_dependencies.imports.resolver import Resolver, Target
from agentjobs_dependencies.imports.rust.resolver import RustResolver
from agentjobs_dependencies.model import ParsedManifest

__all__ = ["CONFIG_MARK", "find_family", "is_config", "is_full", "resolve"]

_FAMILIES = {
    "go": "go",
    "java": "java",
    "rs": "rust",
    **dict.fromkeys(("py", "pyi", "pyx"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"), "javascript"),
}
# About 100 MB in memory, and twenty times what repositories of 30,000 files have.
MAX_EDGES = 1_500_000
# Longer than any path: looking up each parent of a name takes time quadratic in its length.
MAX_NAME_CHARACTERS = 4_096


def resolve(
    modules: Mapping[str, ParsedModule],
    paths: Collection[str],
    manifests: Mapping[str, ParsedManifest],
    configs: Mapping[str, bytes],
) -> ModuleGraph:
    """The graph of `modules`; `paths` are all paths of the commit.

    The files of the graph are the modules, followed by other imported files. Edges beyond
    `MAX_EDGES` are left out; `is_full` tells whether that happened.
    """
    factories: Mapping[str, Callable[[], Resolver]] = {
        "go": lambda: GoResolver(paths, manifests),
        "java": lambda: JavaResolver(paths),
        "javascript": lambda: JavaScriptResolver(paths, manifests, configs),
        "python": lambda: PythonResolver(paths, manifests),
        "rust": lambda: RustResolver(paths, manifests),
    }
    resolutions: dict[str, _Resolution] = {}
    files: dict[str, list[str]] = {}
    externals: dict[str, list[str]] = {}
    remaining = MAX_EDGES
    for path in sorted(modules):
        family, names = find_family(path), modules[path].imports
        if names and family is not None:
            if family not in resolutions:
                resolutions[family] = _Resolution(factories[family]())
            targets = resolutions[family].find_targets(path, names)
            files[path] = sorted(targets.files)[:remaining]
            remaining -= len(files[path])
            externals[path] = sorted(targets.externals)[:remaining]
            remaining -= len(externals[path])
    return _build(sorted(modules), files, externals)


def find_family(path: str) -> str | None:
    """The languages that share a resolver; None for other files."""
    return _FAMILIES.get(path.rpartition(".")[2].lower())


def is_full(graph: ModuleGraph) -> bool:
    """True if `resolve` reached the limit of edges and may have left some out."""
    return len(graph.edges) + len(graph.external_edges) >= MAX_EDGES


class _Targets(NamedTuple):
    files: set[str]
    externals: set[str]


class _Resolution:
    """Resolves the imports of files with one resolver, each name once per scope."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._known: dict[str, dict[str, Target]] = defaultdict(dict)

    def find_targets(self, path: str, names: Iterable[str]) -> _Targets:
        scopes = self._resolver.find_scopes(path)
        targets = _Targets(set(), set())
        for name in names:
            if len(name) > MAX_NAME_CHARACTERS:
                continue
            scope = scopes[not self._resolver.is_narrow(name)]
            known = self._known[scope]
            target = known.get(name)
            if target is None:
                target = known[name] = self._resolver.locate(scope, name)
            if isinstance(target, tuple):
                targets.files.update(target)
            elif target:
                targets.externals.add(target)
        targets.files.discard(path)
        return targets


def _build(
    sources: Sequence[str], files: Mapping[str, list[str]], externals: Mapping[str, list[str]]
) -> ModuleGraph:
    imported = {target for targets in files.values() for target in targets}
    all_files = (*sources, *sorted(imported.difference(sources)))
    names = tuple(sorted({name for targets in externals.values() for name in targets}))
    return ModuleGraph(
        files=all_files,
        edges=_edges(sources, files, all_files),
        externals=names,
        external_edges=_edges(sources, externals, names),
    )


def _edges(
    sources: Sequence[str], targets: Mapping[str, list[str]], ends: Sequence[str]
) -> tuple[tuple[int, int], ...]:
    number = {name: at for at, name in enumerate(ends)}
    return tuple(
        (start, end)
        for start, path in enumerate(sources)
        for end in sorted([number[target] for target in targets.get(path, ())])
    )
