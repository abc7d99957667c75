"""Builds the module graph: resolves every import to a file of the repository or an external name.

Resolving depends on which paths exist, on manifests and on compiler configurations, but never on
the content of other source files. So the imports of a few files can be resolved alone.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping

from agentjobs.inventory.graph.encoding import START, Edges, PathGraph, edges_of, numbers
from agentjobs.inventory.imports.golang.resolver import GoResolver
from agentjobs.inventory.imports.java.resolver import JavaResolver
from agentjobs.inventory.imports.javascript.resolver import JavaScriptResolver
from agentjobs.inventory.imports.javascript.tsconfig import CONFIG_MARK, is_config
from agentjobs.inventory.imports.python.resolver import PythonResolver
from agentjobs.inventory.imports.resolver import Resolver, Target
from agentjobs.inventory.imports.rust.resolver import RustResolver
from agentjobs.inventory.model import ParsedManifest, ParsedModule

__all__ = ["CONFIG_MARK", "extensions_of", "family_of", "is_config", "is_full", "resolve"]

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
# External names are numbered from here, so that their edges sort after edges between files.
_FIRST_EXTERNAL = 1 << 62


def resolve(
    files: Mapping[str, ParsedModule],
    paths: Mapping[str, int],
    manifests: Mapping[str, ParsedManifest],
    configs: Mapping[str, bytes],
) -> PathGraph:
    """The graph of `files`; `paths` maps all sorted paths to their numbers.

    Edges beyond `MAX_EDGES` are left out; `is_full` tells whether that happened.
    """
    factories: Mapping[str, Callable[[], Resolver]] = {
        "go": lambda: GoResolver(paths, manifests),
        "java": lambda: JavaResolver(paths),
        "javascript": lambda: JavaScriptResolver(paths, manifests, configs),
        "python": lambda: PythonResolver(paths, manifests),
        "rust": lambda: RustResolver(paths, manifests),
    }
    graph = _Graph(paths)
    resolvers: dict[str, Resolver] = {}
    for path in sorted(files):
        names = files[path].imports
        family = family_of(path)
        if names and family is not None:
            resolver = resolvers.get(family)
            if resolver is None:
                resolver = resolvers[family] = factories[family]()
            graph.add(paths[path], names, resolver, resolver.scopes_of(path))
    return graph.build(sorted([paths[path] for path in files]))


def family_of(path: str) -> str | None:
    """The languages that share a resolver; None for other files."""
    return _FAMILIES.get(path.rpartition(".")[2].lower())


def extensions_of(family: str) -> list[str]:
    """The lower-case extensions of languages that share a resolver."""
    return [f".{extension}" for extension, other in _FAMILIES.items() if other == family]


def is_full(graph: PathGraph) -> bool:
    """True if `resolve` reached the limit of edges and may have left some out."""
    return len(graph.edges) + len(graph.external_edges) >= MAX_EDGES


class _Graph:
    """Collects edges between the numbers of files and of external names."""

    def __init__(self, paths: Mapping[str, int]) -> None:
        self._paths = paths
        self._externals: dict[str, int] = {}
        self._known: dict[Resolver, dict[str, dict[str, tuple[int, ...]]]] = {}
        self._edges: list[int] = []

    def add(
        self, source: int, names: tuple[str, ...], resolver: Resolver, scopes: tuple[str, str]
    ) -> None:
        remaining = MAX_EDGES - len(self._edges)
        if remaining <= 0:
            return
        known = self._known.get(resolver)
        if known is None:
            known = self._known[resolver] = defaultdict(dict)
        narrow, wide = known[scopes[0]], known[scopes[1]]
        targets: set[int] = set()
        for name in names:
            if len(name) > MAX_NAME_CHARACTERS:
                continue
            numbers = wide.get(name)
            if numbers is None:
                numbers = narrow.get(name)
            if numbers is None:
                is_narrow = resolver.is_narrow(name)
                numbers = self._numbers(resolver.locate(scopes[not is_narrow], name))
                (narrow if is_narrow else wide)[name] = numbers
            targets.update(numbers)
        targets.discard(source)
        if len(targets) > remaining:
            targets = set(sorted(targets)[:remaining])
        start = source * START
        self._edges += [start + target for target in targets]

    def _numbers(self, target: Target) -> tuple[int, ...]:
        if not target:
            return ()
        if isinstance(target, str):
            new_number = _FIRST_EXTERNAL + len(self._externals)
            return (self._externals.setdefault(target, new_number),)
        return tuple([self._paths[path] for path in target])

    def build(self, sources: list[int]) -> PathGraph:
        self._edges.sort()
        first_external = bisect_left(self._edges, _FIRST_EXTERNAL)
        external_edges = [edge - _FIRST_EXTERNAL for edge in self._edges[first_external:]]
        del self._edges[first_external:]
        externals = self._sort_externals(external_edges)
        return PathGraph(numbers(sources), edges_of(self._edges), *externals)

    def _sort_externals(self, external_edges: list[int]) -> tuple[list[str], Edges]:
        """The external names, sorted, and the edges with the numbers of that order."""
        names = sorted(self._externals)
        rank = {self._externals[name] - _FIRST_EXTERNAL: at for at, name in enumerate(names)}
        return names, edges_of(
            sorted([edge - edge % START + rank[edge % START] for edge in external_edges])
        )
