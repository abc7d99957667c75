"""The noun `platforms`. Importing a module registers its verbs."""

from agentjobs.cli.platforms import repos, secrets, signing, webhooks
from agentjobs.cli.platforms.commands import platforms

__all__ = ["platforms", "repos", "secrets", "signing", "webhooks"]
