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
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from agentjobs.connections.adapters import Platforms
    from agentjobs.forges.connection import Connection
    from agentjobs.forges.protocol import Account


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

    async def verify(admin: Admin, platforms: "Platforms") -> "tuple[Connection, Account]":
        from agentjobs.connections.verify import verify_and_replace

        keys = sealing_keys(admin)
        return await verify_and_replace(
            admin.db, keys, platforms, org, name, credential, interactive_retries()
        )

    replaced = _change_connection(data_dir, verify, json=json)
    if not json:
        note = f"{replaced.name} uses the new credential; revoke the old one on {replaced.url}."
        print_note(note)


@forges.command("set-installation")
def set_installation(
    name: ConnectionName,
    installation_id: Annotated[str, typer.Argument(help="The new ID of the App's installation.")],
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Use another installation of the GitHub App: one that is installed again has a new ID."""

    async def verify(admin: Admin, platforms: "Platforms") -> "tuple[Connection, Account]":
        from agentjobs.connections.verify import verify_installation

        keys = sealing_keys(admin)
        return await verify_installation(
            admin.db, keys, platforms, org, name, installation_id, interactive_retries()
        )

    _change_connection(data_dir, verify, json=json)


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


def _change_connection(
    data_dir: "Path | None",
    verify: "Callable[[Admin, Platforms], Awaitable[tuple[Connection, Account]]]",
    *,
    json: bool,
) -> "Connection":
    """Print the changed connection, and let the jobs that wait for it try again."""

    async def work(admin: Admin) -> "Connection":
        from agentjobs.jobs.queue.platform_outages import end_outages_of_connection

        async with open_platforms(admin.db, admin.settings) as platforms:
            changed, account = await verify(admin, platforms)
        await end_outages_of_connection(admin.db, changed.id)
        print_account(admin.settings, changed, account)
        return changed

    changed = with_store(data_dir, work)
    if json:
        print_json(document(changed))
    else:
        print_result(changed.name)
    return changed
