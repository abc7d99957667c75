"""`agentjobs repos environment`: what the service sets for the environment of a repository."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, print_note
from agentjobs.cli.repos.commands import Name, repos
from agentjobs.cli.store_command import Work, store_command

if TYPE_CHECKING:
    from agentjobs_runtime.environments.definition import EnvironmentDefinition

environment = typer.Typer(no_args_is_help=True, help="The environment of a repository's agents.")
repos.add_typer(environment, name="environment")

_STANDARD_INPUT = "-"


@environment.command("set")
@store_command
def set_environment(
    name: Name,
    *,
    file: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="A file with a table [environment], as in .agentjobs.toml; or -."
        ),
    ] = "",
    image: Annotated[str, typer.Option(metavar="IMAGE", help="An OCI image.")] = "",
    setup: Annotated[str, typer.Option(metavar="COMMAND", help="Run once, with network.")] = "",
    start: Annotated[str, typer.Option(metavar="COMMAND", help="Run before each agent.")] = "",
    org: Org = DEFAULT_ORG,
) -> Work:
    """Set the environment of a repository, instead of what its own files say."""
    given = {"image": image, "setup": setup, "start": start}
    if bool(file) == any(given.values()):
        raise typer.BadParameter("specify --file, or some of --image, --setup and --start")
    definition = _read_definition(file) if file else _convert_definition(given)

    note = "This replaces what the files of the repository say, for jobs that start from now."
    return lambda admin: _set_definition(admin, org, name, definition, note)


@environment.command("clear")
@store_command
async def clear_environment(admin: Admin, name: Name, org: Org = DEFAULT_ORG) -> Answer:
    """Let the repository's own files say what its environment is."""
    note = "The files of the repository decide, for jobs that start from now."
    return await _set_definition(admin, org, name, None, note)


@environment.command("trust-branch")
@store_command
async def trust_branch(
    admin: Admin,
    name: Name,
    branches: Annotated[list[str], typer.Argument(metavar="BRANCH...")],
    remove: Annotated[bool, typer.Option("--remove", help="Do not trust them any more.")] = False,
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Give setup of a branch network and secrets, as that of the default branch has.

    Whoever can push to the branch can then read the secrets for setup.
    """
    from agentjobs.environments.repo_settings import load_repo_settings, set_trusted_branches

    owner_id, repo = await admin.find_repo(org, name)
    before = set((await load_repo_settings(admin.db, repo.id)).trusted_branches)
    chosen = before.difference(branches) if remove else before.union(branches)
    trusted = await set_trusted_branches(
        admin.db, owner_id, repo.id, repo.full_name, sorted(chosen)
    )
    note = f"Trusted beside the default branch of {name}: {', '.join(trusted) or 'none'}."
    return Answer({"repo": name, "trusted_branches": trusted}, trusted, [note])


async def _set_definition(
    admin: Admin, org: str, name: str, definition: "EnvironmentDefinition | None", note: str
) -> Answer:
    from agentjobs.environments.repo_settings import set_definition

    owner_id, repo = await admin.find_repo(org, name)
    await set_definition(admin.db, owner_id, repo.id, repo.full_name, definition)
    document = {"repo": repo.full_name, "definition": definition}
    return Answer(document, [repo.full_name], [note])


def _read_definition(file: str) -> "EnvironmentDefinition":
    from agentjobs.repos.environment_text import parse_environment
    from agentjobs_runtime.repo_configuration import MAX_BYTES

    # One byte more than allowed, so that a longer file fails instead of being cut.
    if file == _STANDARD_INPUT:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with Path(file).open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    source = "standard input" if file == _STANDARD_INPUT else file
    definition, warnings = parse_environment(content, source)
    for warning in warnings:
        print_note(warning)
    return definition


def _convert_definition(given: dict[str, Any]) -> "EnvironmentDefinition":
    from agentjobs_runtime.environments.validation import DefinitionError, convert_definition

    try:
        return convert_definition(given, lambda *_: None)
    except DefinitionError as error:
        raise typer.BadParameter(f"--{error.path[0]}: {error}") from None
