"""The noun `orgs`. Importing a module registers its verbs."""

from agentjobs.cli.orgs import data
from agentjobs.cli.orgs.commands import orgs

__all__ = ["data", "orgs"]
