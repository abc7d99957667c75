"""The noun `repos`. Importing a module registers its verbs."""

from agentjobs.cli.repos import environment, graph
from agentjobs.cli.repos.commands import repos

__all__ = ["environment", "graph", "repos"]
