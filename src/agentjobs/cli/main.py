"""The command `agentjobs`: gathers the nouns, and lets no failure out as a traceback."""

import io
import os
import sys
from typing import Annotated

import typer

# These modules add verbs to a noun of another module; importing them registers the verbs.
from agentjobs.cli import failures, graph  # noqa: F401 - see above
from agentjobs.cli.advisories.commands import advisories
from agentjobs.cli.agents import agents
from agentjobs.cli.backup.commands import backup, migrate
from agentjobs.cli.demo.command import demo
from agentjobs.cli.doctor.command import doctor
from agentjobs.cli.forges import repos as forge_repos  # noqa: F401 - see above
from agentjobs.cli.forges import secrets as forge_secrets  # noqa: F401 - see above
from agentjobs.cli.forges.commands import forges
from agentjobs.cli.jobs import jobs
from agentjobs.cli.keys import keys
from agentjobs.cli.orgs import orgs
from agentjobs.cli.pulls import pulls
from agentjobs.cli.repos import repos
from agentjobs.cli.secrets import secrets
from agentjobs.cli.services import serve, up, worker
from agentjobs.cli.trackers.commands import trackers
from agentjobs.cli.users import access  # noqa: F401 - see above
from agentjobs.cli.users.commands import users
from agentjobs.cli.webhooks import deliveries, ping  # noqa: F401 - see above
from agentjobs.cli.webhooks import secrets as webhook_secrets  # noqa: F401 - see above
from agentjobs.cli.webhooks.commands import webhooks

app = typer.Typer(
    name="agentjobs",
    help="A self-hosted Agent Job Service: coding agents in a sandbox, real pull requests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for command in (up, serve, worker, demo):
    app.command()(command)
for name, noun in {
    "jobs": jobs,
    "orgs": orgs,
    "users": users,
    "keys": keys,
    "repos": repos,
    "forges": forges,
    "trackers": trackers,
    "agents": agents,
    "advisories": advisories,
    "secrets": secrets,
    "pulls": pulls,
    "webhooks": webhooks,
}.items():
    app.add_typer(noun, name=name)
for command in (doctor, migrate, backup):
    app.command()(command)


def show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"agentjobs {version('agentjobs')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    """A self-hosted Agent Job Service: coding agents in a sandbox, real pull requests."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file name or a diff may hold what the terminal's encoding cannot show.
            stream.reconfigure(errors="backslashreplace")
    try:
        refuse_broken_words(sys.argv[1:])
        exit_code = app(standalone_mode=False)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the outermost edge
        exit_code = failures.report(error)
        drop_what_cannot_be_written()
    sys.exit(exit_code)


def refuse_broken_words(arguments: list[str]) -> None:
    """No name, address or text of the service is other than UTF-8, and no store would take it."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            reason = f"{argument!r} is not valid UTF-8; is the terminal set to another encoding?"
            raise typer.BadParameter(reason) from None


def drop_what_cannot_be_written() -> None:
    """Or it would be tried again at the end of the process, and complained of once more."""
    try:
        # None: it was closed before the process began.
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
