"""The commands by name, so that a call imports and builds only the command it runs."""

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

PROGRAM = "agentjobs"
# The completion script of a shell calls the program with this variable.
COMPLETION_VARIABLE = "_AGENTJOBS_COMPLETE"


class Command(NamedTuple):
    """`target` is `module:name`, below this package, of a function or a `typer.Typer`."""

    target: str
    # The first line of its help, for lists of commands.
    summary: str


COMMANDS = {
    "up": Command("services:up", "Run the API and a worker in one process."),
    "serve": Command("services:serve", "Run the API without a worker."),
    "worker": Command("services:worker", "Run jobs from the store of `agentjobs serve`."),
    "demo": Command("demo.command:demo", "Run a sample job on a temporary service."),
    "pause": Command(
        "pause:pause", "Start no more jobs; running jobs continue and everything else works."
    ),
    "resume": Command("pause:resume", "Start jobs again after `pause`."),
    "doctor": Command(
        "doctor.command:doctor",
        "Check this installation for problems; exit 1 if there are any.",
    ),
    "migrate": Command("backup.commands:migrate", "Migrate the database to the current schema."),
    "backup": Command("backup.commands:backup", "Back up the database and the repositories."),
    "restore": Command("backup.commands:restore", "Restore a backup."),
    "login": Command(
        "contexts.login:login",
        "Store the address of a service and an API key, and use them by default.",
    ),
    "logout": Command(
        "contexts.login:logout", "Delete the current context and its key from this machine."
    ),
    "contexts": Command(
        "contexts.commands:contexts",
        "List, select and remove the services of `agentjobs login`.",
    ),
    "me": Command("account:me", "Show the organization, the plan, the key and the limits in use."),
    "usage": Command(
        "account:usage", "Show jobs, agent time, tokens and cost of the organization."
    ),
    "completion": Command(
        "completion:completion",
        "Print a script that completes commands and options in your shell.",
    ),
    "jobs": Command("jobs:jobs", "Create and inspect jobs over HTTP."),
    "mcp": Command(
        "mcp.command:mcp", "Serve the Model Context Protocol (MCP) on stdin and stdout."
    ),
    "orgs": Command("orgs:orgs", "Manage organizations, plans and budgets."),
    "users": Command("users:users", "Manage users, roles and sign-in."),
    "keys": Command("keys:keys", "Manage API keys."),
    "repos": Command("repos:repos", "Manage connected repositories."),
    "platforms": Command(
        "platforms:platforms", "Manage connections to GitHub, GitLab, Gitea and Forgejo."
    ),
    "trackers": Command("trackers.commands:trackers", "Manage ticket trackers (issues and Jira)."),
    "agents": Command("agents:agents", "List and check agent types."),
    "advisories": Command(
        "advisories.commands:advisories", "Manage advisories about vulnerabilities (OSV)."
    ),
    "vulnerabilities": Command(
        "vulnerabilities:vulnerabilities", "List and dismiss vulnerabilities of repositories."
    ),
    "secrets": Command("secrets:secrets", "Manage secrets, encrypted at rest."),
    "pulls": Command("pulls:pulls", "Work with pull requests."),
    "webhooks": Command("webhooks:webhooks", "Manage webhook endpoints and deliveries."),
    "workers": Command("workers:workers", "List, drain and remove workers."),
}


@cache
def load_command(name: str) -> TyperCommand | TyperGroup:
    module, _, attribute = COMMANDS[name].target.partition(":")
    command = getattr(import_module(f"agentjobs.cli.{module}"), attribute)
    parent = typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        parent.add_typer(command, name=name)
    else:
        parent.command(name)(command)
    loaded = typer.main.get_group(parent).commands[name]
    assert isinstance(loaded, TyperCommand | TyperGroup)
    return loaded


class LazyGroup(TyperGroup):
    """Help and completion list the summaries; a command is loaded when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, command in COMMANDS.items():
            self.add_command(TyperCommand(name, help=command.summary))

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, TyperCommand | TyperGroup | None, list[str]]:
        # The name in 0.2.0; for one release.
        if args[:1] == ["forges"]:
            args = ["platforms", *args[1:]]
        name, listed, rest = super().resolve_command(ctx, args)
        command = load_command(name) if name is not None and listed is not None else None
        return name, command, rest
