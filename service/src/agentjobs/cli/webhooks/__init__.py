"""The noun `webhooks`. Importing a module registers its verbs."""

from agentjobs.cli.webhooks import deliveries, ping, secrets
from agentjobs.cli.webhooks.commands import webhooks

__all__ = ["deliveries", "ping", "secrets", "webhooks"]
