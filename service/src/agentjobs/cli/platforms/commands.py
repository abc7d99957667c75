"""`agentjobs platforms`: connections to GitHub, GitLab and Gitea. Credentials are never shown."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.credential_input import read_key_file, read_token
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Secret, Table, print_note
from agentjobs.cli.platforms.access import interactive_retries, open_platforms
from agentjobs.cli.platforms.text import (
    TABLE,
    account_document,
    account_notes,
    document,
    hook_document,
    hook_notes,
    line,
)
from agentjobs.cli.store_command import Work, store_command
from agentjobs.cli.webhooks.commands import new_key_remarks, sealing_keys

if TYPE_CHECKING:
    from agentjobs.platforms.connection import Connection

platforms = typer.Typer(
    no_args_is_help=True, help="Manage connections to GitHub, GitLab, Gitea and Forgejo."
)

NOT_ACCEPTED = 1

ConnectionName = Annotated[str, typer.Argument(metavar="NAME", help="The connection's name or ID.")]
PrivateKeyFile = Annotated[
    str | None,
    typer.Option(
        "--private-key-file",
        metavar="PATH",
        help="The private key of a GitHub App, in PEM format; - reads standard input.",
    ),
]


@platforms.command("add")
@store_command
def add_connection(
    platform: Annotated[str, typer.Argument(metavar="PLATFORM", help="github, gitlab or gitea.")],
    *,
    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", help="Its address (default: github.com, gitlab.com)."),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Default: the platform's name.")
    ] = "",
    app_id: Annotated[
        str | None, typer.Option("--app-id", metavar="ID", help="The ID of a GitHub App.")
    ] = None,
    installation_id: Annotated[
        str | None,
        typer.Option("--installation-id", metavar="ID", help="The ID of the app's installation."),
    ] = None,
    private_key_file: PrivateKeyFile = None,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Connect a platform; the token is read from standard input or a prompt without echo.

    The platform must accept the token. The secret for its webhooks is printed once.
    """
    from agentjobs.connections.validate import PLATFORMS, validate_platform

    is_app = _is_app(app_id, installation_id, private_key_file)
    if not url and PLATFORMS[validate_platform(platform)] is None:
        raise typer.BadParameter(f"{platform} has no default address; pass it with --url")
    credential = read_credential(platform, private_key_file if is_app else None)

    async def work(admin: Admin) -> Secret:
        from agentjobs.connections.connections import NewConnection
        from agentjobs.connections.hook_urls import hook_url
        from agentjobs.connections.verify import verify_and_add
        from agentjobs.organizations.effective_settings import load_public_url

        keys = sealing_keys(admin)
        new = NewConnection(
            platform=platform,
            credential=credential,
            url=url,
            name=name,
            app_id=app_id,
            installation_id=installation_id,
        )
        async with open_platforms(admin.db, admin.settings) as platforms:
            verified = await verify_and_add(
                admin.db, keys, platforms, org, new, interactive_retries()
            )
        connection, hook_secret = verified.added
        public_url = await load_public_url(admin.db, admin.settings)
        address = hook_url(public_url, connection.platform, connection.id)
        notes = [
            *account_notes(admin.settings, connection, verified.account),
            f"List its repositories: agentjobs platforms repos {connection.name} --org {org}",
            (
                "Webhooks are registered with the repositories where the account may do so. To use"
                " one for all repositories instead, add a webhook with content type JSON to"
                f" {address} and the following secret, which is shown only once."
            ),
        ]
        return Secret(
            {
                "hook_secret": hook_secret,
                "hook_url": address,
                **document(connection),
                **account_document(verified.account),
            },
            notes,
            hook_secret,
            f"{connection.name} was removed again; add it once more.",
            lambda admin: _remove(admin, org, connection.id),
            remarks=new_key_remarks(keys),
        )

    return work


@platforms.command("list")
@store_command
async def list_connections(admin: Admin, org: Org = DEFAULT_ORG) -> Table:
    """List the connections of an organization."""
    from agentjobs.connections import connections

    listed = await connections.list_connections(admin.db, org)
    documents = [document(connection) for connection in listed]
    return Table({"platforms": documents}, TABLE, [line(connection) for connection in listed])


@platforms.command("show")
@store_command
async def show_connection(admin: Admin, name: ConnectionName, org: Org = DEFAULT_ORG) -> Table:
    """Show a connection and the URL for its platform's webhooks."""
    from agentjobs.connections import connections
    from agentjobs.connections.hook_urls import hook_url
    from agentjobs.connections.rows import count_repositories
    from agentjobs.organizations.effective_settings import load_public_url

    connection = await connections.find_connection(admin.db, org, name)
    public_url = await load_public_url(admin.db, admin.settings)
    fields = {
        **document(connection),
        "hook_url": hook_url(public_url, connection.platform, connection.id),
        "connected_repositories": await count_repositories(admin.db, connection.id),
    }
    return Table(fields, ("field", "value"), [*fields.items()])


@platforms.command("check")
@store_command
async def check_connection(admin: Admin, name: ConnectionName, org: Org = DEFAULT_ORG) -> Answer:
    """Check that the platform accepts the credential; exit 1 if a permission is missing."""
    from agentjobs.connections import connections, verify
    from agentjobs.connections.commits import describe_commits
    from agentjobs.jobs.queue.platform_outages import end_outages_of_connection
    from agentjobs.pulls import status_rows
    from agentjobs.repos.hook_rows import hooks_of_connection, make_due

    connection = await connections.find_connection(admin.db, org, name)
    async with open_platforms(admin.db, admin.settings) as platforms:
        account = await verify.check_connection(
            admin.db, platforms, connection.id, interactive_retries()
        )
    # A permission may have been granted since.
    await admin.db.transact(make_due, connection.id)
    status_error = await status_rows.latest_error(admin.db, connection.id)
    await admin.db.transact(status_rows.retry_failed, connection.id)
    hooks = await hooks_of_connection(admin.db, connection.id)
    checked = await connections.find_connection(admin.db, org, connection.id)
    await end_outages_of_connection(admin.db, connection.id)
    notes = [*account_notes(admin.settings, checked, account), *hook_notes(hooks)]
    if status_error:
        notes.append(f"The result of the latest job was not reported: {status_error}")
    document = {
        "name": checked.name,
        **account_document(account),
        "commits": describe_commits(admin.settings, checked),
        "status_error": status_error,
        "webhooks": [hook_document(hook) for hook in hooks],
    }
    exit_code = NOT_ACCEPTED if account.missing else 0
    return Answer(document, [account.login], notes, exit_code=exit_code)


@platforms.command("remove")
@store_command
async def remove_connection(admin: Admin, name: ConnectionName, org: Org = DEFAULT_ORG) -> Answer:
    """Remove a connection with its credential; no repository may be connected through it."""
    removed = await _remove(admin, org, name)
    note = f"{removed.name} is removed; revoke its credential on {removed.url}."
    return Answer({"name": removed.name, "removed": True}, [removed.name], [note])


async def _remove(admin: Admin, org: str, name: str) -> "Connection":
    from agentjobs.connections import connections
    from agentjobs.platform_sync.hook_removal import remove_hooks_of_connection

    connection = await connections.find_connection(admin.db, org, name)
    async with open_platforms(admin.db, admin.settings) as platforms:
        left = await remove_hooks_of_connection(admin.db, platforms, connection.id)
    for full_name in left:
        print_note(f"The webhook of {full_name} could not be removed; delete it there.")
    return await connections.remove_connection(admin.db, org, name)


def _is_app(app_id: str | None, installation_id: str | None, key_file: str | None) -> bool:
    given = [bool(value) for value in (app_id, installation_id, key_file)]
    if any(given) and not all(given):
        raise typer.BadParameter(
            "a GitHub App needs --app-id, --installation-id and --private-key-file"
        )
    return all(given)


def read_credential(owner: str, private_key_file: str | None) -> str:
    if private_key_file is not None:
        return read_key_file(private_key_file)
    return read_token(f"Token of {owner}")
