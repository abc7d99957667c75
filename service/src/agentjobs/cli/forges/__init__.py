"""The noun `forges`. Importing a module registers its verbs."""

from agentjobs.cli.forges import repos, secrets, signing, webhooks
from agentjobs.cli.forges.commands import forges

__all__ = ["forges", "repos", "secrets", "signing", "webhooks"]
