"""`agentjobs platforms rotate-token`, `set-installation` and `rotate-hook-secret`.

They give a connection another credential or secret.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Secret
from agentjobs.cli.platforms.access import interactive_retries, open_platforms
from agentjobs.cli.platforms.commands import (
    ConnectionName,
    PrivateKeyFile,
    platforms,
    read_credential,
)
from agentjobs.cli.platforms.text import account_notes, document
from agentjobs.cli.store_command import Work, store_command
from agentjobs.cli.webhooks.commands import sealing_keys

if TYPE_CHECKING:
    from agentjobs.platforms.connection import Connection
    from agentjobs.platforms.protocol import Account


@platforms.command("rotate-token")
@store_command
def rotate_token(
    name: ConnectionName, private_key_file: PrivateKeyFile = None, org: Org = DEFAULT_ORG
) -> Work:
    """Replace the token or private key; the old one stays if the new one is not accepted."""
    credential = read_credential(name, private_key_file)

    async def work(admin: Admin) -> Answer:
        from agentjobs.connections.verify import verify_and_replace

        async with open_platforms(admin.db, admin.settings) as platforms:
            changed, account = await verify_and_replace(
                *(admin.db, sealing_keys(admin), platforms, org, name, credential),
                interactive_retries(),
            )
        note = f"{changed.name} uses the new credential; revoke the old one on {changed.url}."
        return await _changed(admin, changed, account, note)

    return work


@platforms.command("set-installation")
@store_command
async def set_installation(
    admin: Admin,
    name: ConnectionName,
    installation_id: Annotated[str, typer.Argument(help="The new ID of the App's installation.")],
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Use another installation of the GitHub App: one that is installed again has a new ID."""
    from agentjobs.connections.verify import verify_installation

    async with open_platforms(admin.db, admin.settings) as platforms:
        changed, account = await verify_installation(
            *(admin.db, sealing_keys(admin), platforms, org, name, installation_id),
            interactive_retries(),
        )
    return await _changed(admin, changed, account)


@platforms.command("rotate-hook-secret")
@store_command
async def rotate_hook_secret(admin: Admin, name: ConnectionName, org: Org = DEFAULT_ORG) -> Secret:
    """Create a new secret for the platform's webhooks and print it once."""
    from agentjobs.connections import connections

    secret = await connections.rotate_hook_secret(admin.db, sealing_keys(admin), org, name)
    note = (
        f"Webhooks of {name} are refused until the platform has this secret, which is shown only"
        " once."
    )
    document = {"name": name, "hook_secret": secret}
    return Secret(document, [note], secret, "Rotate it again.", what="new secret")


async def _changed(
    admin: Admin, connection: "Connection", account: "Account", *notes: str
) -> Answer:
    """Let the jobs that wait for the changed connection try again."""
    from agentjobs.jobs.queue.platform_outages import end_outages_of_connection

    await end_outages_of_connection(admin.db, connection.id)
    remarks = [*account_notes(admin.settings, connection, account)]
    return Answer(document(connection), [connection.name], notes, remarks)
