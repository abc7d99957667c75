"""Graphs of a few files, as the index makes them."""

from collections.abc import Collection, Mapping

from agentjobs.inventory.graph_data import FlatGraph
from agentjobs.inventory.graph_merge import join_graphs
from agentjobs.inventory.imports import resolve
from agentjobs.inventory.model import ManifestFacts, ModuleFacts


def graph_of(
    facts: Mapping[str, ModuleFacts],
    paths: Collection[str],
    manifests: Mapping[str, ManifestFacts],
    configs: Mapping[str, bytes],
) -> FlatGraph:
    every = sorted(paths)
    numbers = {path: at for at, path in enumerate(every)}
    return join_graphs([resolve(facts, numbers, manifests, configs)], every)
