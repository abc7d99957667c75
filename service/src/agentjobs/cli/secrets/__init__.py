"""The noun `secrets`. Importing a module registers its verbs."""

from agentjobs.cli.secrets import rotation
from agentjobs.cli.secrets.commands import secrets

__all__ = ["rotation", "secrets"]
