"""The noun `repos`. Importing a module registers its verbs."""

from agentjobs.cli.repos import environment, environment_builds, graph
from agentjobs.cli.repos.commands import repos

__all__ = ["environment", "environment_builds", "graph", "repos"]
