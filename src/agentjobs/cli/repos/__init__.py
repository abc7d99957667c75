"""The noun `repos`. Importing a module registers its verbs."""

from agentjobs.cli.repos import graph
from agentjobs.cli.repos.commands import repos

__all__ = ["graph", "repos"]
