"""Graphs of a few files, built as the index builds them."""

from collections.abc import Collection, Mapping

from agentjobs.inventory.graph.encoding import FlatGraph
from agentjobs.inventory.graph.merge import join_graphs
from agentjobs.inventory.imports import resolve
from agentjobs.inventory.model import ParsedManifest, ParsedModule


def graph_of(
    modules: Mapping[str, ParsedModule],
    paths: Collection[str],
    manifests: Mapping[str, ParsedManifest],
    configs: Mapping[str, bytes],
) -> FlatGraph:
    all_paths = sorted(paths)
    numbers = {path: at for at, path in enumerate(all_paths)}
    return join_graphs([resolve(modules, numbers, manifests, configs)], all_paths)
