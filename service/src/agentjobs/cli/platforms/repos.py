"""`agentjobs platforms repos` and `connect`: listing and connecting a platform's repositories."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Table, print_note
from agentjobs.cli.platforms.access import open_platforms
from agentjobs.cli.platforms.commands import ConnectionName, platforms
from agentjobs.cli.store_command import Work, store_command

if TYPE_CHECKING:
    from agentjobs.connections.repositories import AvailableRepository, ConnectResult

SOME_REFUSED = 1


@platforms.command("repos")
@store_command
async def list_available(admin: Admin, name: ConnectionName, org: Org = DEFAULT_ORG) -> Table:
    """List the repositories that a connection can see, and whether they can be connected."""
    from agentjobs.connections.repositories import list_available

    async with open_platforms(admin.db, admin.settings) as platforms:
        repos = await list_available(admin.db, platforms, org, name)
    documents = [_available_document(repo) for repo in repos]
    rows = [_available_line(repo) for repo in repos]
    return Table({"repos": documents}, ("name", "branch", "state"), rows)


@platforms.command("connect")
@store_command
def connect_repos(
    name: ConnectionName,
    repos: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OWNER/NAME]...", help="The repositories to connect."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that the connection can see.")] = False,
    with_webhooks: Annotated[
        bool | None,
        typer.Option(
            "--with-webhooks/--no-webhooks",
            help="Register webhooks (default: if the platform can reach this service).",
        ),
    ] = None,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Connect repositories of a platform; exit 1 if a named one cannot be connected."""
    if every == bool(repos):
        raise typer.BadParameter("name repositories, or use --all")

    async def work(admin: Admin) -> Answer:
        from agentjobs.connections.connections import find_connection
        from agentjobs.connections.hook_urls import reason_unreachable
        from agentjobs.connections.repositories import connect_repositories
        from agentjobs.organizations.effective_settings import load_public_url

        public_url = await load_public_url(admin.db, admin.settings)
        connection = await find_connection(admin.db, org, name)
        if with_webhooks is None and (reason := reason_unreachable(public_url, connection.url)):
            print_note(f"No webhooks are registered: {reason}")
        async with open_platforms(admin.db, admin.settings) as platforms:
            results = await connect_repositories(
                admin.db,
                platforms,
                org,
                name,
                None if every else repos,
                public_url=public_url,
                with_hooks=with_webhooks,
            )
        connected = [result.full_name for result in results if result.problem is None]
        notes = [
            f"{result.full_name} is not connected: {result.problem.message}"
            for result in results
            if result.problem is not None
        ]
        exit_code = SOME_REFUSED if notes and not every else 0
        if connected:
            notes.append(
                "Repositories accept jobs once a running service has fetched and indexed them."
            )
        document = {"repos": [_result_document(result) for result in results]}
        return Answer(document, connected, notes, exit_code=exit_code)

    return work


def _result_document(result: "ConnectResult") -> dict[str, Any]:
    problem = result.problem
    return {
        "full_name": result.full_name,
        "connected": problem is None,
        "problem": None if problem is None else {"code": problem.code, "message": problem.message},
    }


def _available_document(repo: "AvailableRepository") -> dict[str, Any]:
    return {
        "full_name": repo.remote.full_name,
        "external_id": repo.remote.external_id,
        "default_branch": repo.remote.default_branch or None,
        "connected_as": repo.connected_as,
        "problem": repo.problem,
    }


def _available_line(repo: "AvailableRepository") -> list[Any]:
    state = "connected" if repo.connected_as else repo.problem or "can be connected"
    return [repo.remote.full_name, repo.remote.default_branch or None, state]
