"""The noun `users`. Importing a module registers its verbs."""

from agentjobs.cli.users import access, operators
from agentjobs.cli.users.commands import users

__all__ = ["access", "operators", "users"]
