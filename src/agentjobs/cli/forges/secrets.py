"""`agentjobs forges rotate-token`, `set-installation` and `rotate-hook-secret`: another credential
or secret for a connection."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.forges.access import interactive_retries, open_platforms
from agentjobs.cli.forges.commands import (
    ConnectionName,
    PrivateKeyFile,
    fail_unseen,
    forges,
    read_credential,
)
from agentjobs.cli.forges.text import document, print_account
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import print_json, print_note, print_result, print_secret
from agentjobs.cli.webhooks.commands import sealing_keys

if TYPE_CHECKING:
    from agentjobs.forges.connection import Connection


@forges.command("rotate-token")
def rotate_token(
    name: ConnectionName,
    private_key_file: PrivateKeyFile = None,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Replace the token or private key; the old one stays if the new one is not accepted."""
    credential = read_credential(name, private_key_file)

    async def work(admin: Admin) -> "Connection":
        from agentjobs.connections import verify
        from agentjobs.jobs.queue.platform_outages import end_outages_of_connection

        keys = sealing_keys(admin)
        async with open_platforms(admin.db, admin.settings) as platforms:
            replaced, account = await verify.verify_and_replace(
                admin.db, keys, platforms, org, name, credential, interactive_retries()
            )
        await end_outages_of_connection(admin.db, replaced.id)
        print_account(admin.settings, replaced, account)
        return replaced

    replaced = with_store(data_dir, work)
    if json:
        print_json(document(replaced))
        return
    print_result(replaced.name)
    print_note(f"{replaced.name} uses the new credential; revoke the old one on {replaced.url}.")


@forges.command("set-installation")
def set_installation(
    name: ConnectionName,
    installation_id: Annotated[str, typer.Argument(help="The new ID of the App's installation.")],
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Use another installation of the GitHub App: one that is installed again has a new ID."""

    async def work(admin: Admin) -> "Connection":
        from agentjobs.connections import verify
        from agentjobs.jobs.queue.platform_outages import end_outages_of_connection

        keys = sealing_keys(admin)
        async with open_platforms(admin.db, admin.settings) as platforms:
            moved, account = await verify.verify_installation(
                admin.db, keys, platforms, org, name, installation_id, interactive_retries()
            )
        await end_outages_of_connection(admin.db, moved.id)
        print_account(admin.settings, moved, account)
        return moved

    moved = with_store(data_dir, work)
    if json:
        print_json(document(moved))
        return
    print_result(moved.name)


@forges.command("rotate-hook-secret")
def rotate_hook_secret(
    name: ConnectionName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Create a new secret for the platform's webhooks and print it once."""

    async def work(admin: Admin) -> str:
        from agentjobs.connections import connections

        return await connections.rotate_hook_secret(admin.db, sealing_keys(admin), org, name)

    secret = with_store(data_dir, work)

    def show() -> None:
        if json:
            print_json({"name": name, "hook_secret": secret})
            return
        print_note(
            f"Webhooks of {name} are refused until the platform has this secret, which is shown "
            "only once."
        )
        print_result(secret)

    if reason := print_secret(show):
        fail_unseen(f"The new secret could not be printed: {reason}. Rotate it again.")
