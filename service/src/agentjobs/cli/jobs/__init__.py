"""The noun `jobs`. Importing a module registers its verbs."""

from agentjobs.cli.jobs import choices, create, results
from agentjobs.cli.jobs.commands import jobs

__all__ = ["choices", "create", "jobs", "results"]
