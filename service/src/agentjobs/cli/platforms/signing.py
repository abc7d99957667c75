"""`agentjobs platforms signing` and `sign-token`: how the commits of a connection are signed."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.credential_input import read_key_file
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Org
from agentjobs.cli.output import Answer, print_result
from agentjobs.cli.platforms.access import interactive_retries, open_platforms
from agentjobs.cli.platforms.commands import ConnectionName, platforms
from agentjobs.cli.store_command import Work, store_command
from agentjobs.cli.webhooks.commands import sealing_keys

if TYPE_CHECKING:
    from agentjobs.connections.signing import SigningChange


@platforms.command("signing")
@store_command
def signing(
    name: ConnectionName,
    mode: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODE]",
            help="ssh (with an SSH key), platform (by GitHub, for an App) or none.",
        ),
    ] = None,
    *,
    key_file: Annotated[
        str | None,
        typer.Option(
            "--key-file",
            metavar="PATH",
            help="A private SSH key (Ed25519) to sign with; - reads standard input.",
        ),
    ] = None,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Replace the SSH key by a new one.")
    ] = False,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Show or choose how commits are signed; the public key is printed.

    The key is added to the account on the platform if the token may do so.
    """
    if mode != "ssh" and (key_file is not None or new_key):
        raise typer.BadParameter("--key-file and --new-key are options of the mode ssh")
    private_key = "" if key_file is None else read_key_file(key_file)

    async def work(admin: Admin) -> Answer:
        from agentjobs.connections.commits import describe_commits
        from agentjobs.connections.connections import find_connection
        from agentjobs.connections.signing import SigningChange, register_key, set_signing

        if mode is None:
            change = SigningChange(await find_connection(admin.db, org, name))
        else:
            connection = await set_signing(
                *(admin.db, sealing_keys(admin), org, name, mode),
                private_key=private_key,
                is_new_key=new_key,
            )
            async with open_platforms(admin.db, admin.settings) as platforms:
                change = await register_key(platforms, connection, interactive_retries())
        notes = [describe_commits(admin.settings, change.connection)]
        if change.is_registered:
            notes.append("The account on the platform has the key.")
        if change.hint:
            notes.append(change.hint)
        key = change.connection.signing_public_key
        return Answer(_document(change), [key] if key else [], notes)

    return work


@platforms.command("sign-token")
def sign_token(
    name: ConnectionName,
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="The token that the platform's page shows.")
    ],
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
) -> None:
    """Prove to Gitea or Forgejo that the account has the signing key."""
    from agentjobs.connections import signing

    signature = with_store(
        data_dir,
        lambda admin: signing.sign_token(admin.db, sealing_keys(admin), org, name, token),
    )
    print_result(signature.rstrip())


def _document(change: "SigningChange") -> dict[str, Any]:
    connection = change.connection
    return {
        "name": connection.name,
        "signing": connection.signing,
        "signing_public_key": connection.signing_public_key,
        "is_registered": change.is_registered,
        "hint": change.hint or None,
    }
