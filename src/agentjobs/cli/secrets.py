"""`agentjobs secrets`: keys of model providers and the like. A value comes in, and never out."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import answer, answer_json, answer_table, remark

if TYPE_CHECKING:
    from agentjobs.organizations.secrets import Secret

secrets = typer.Typer(no_args_is_help=True, help="Secrets of an organization, sealed at rest.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Such as ANTHROPIC_API_KEY.")]


@secrets.command("set")
def set_secret(
    name: Name, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Store a secret; its value is read from standard input, or asked for without an echo."""
    value = _read_value(name)

    async def work(admin: Admin) -> "Secret":
        from agentjobs.organizations import secrets as stored
        from agentjobs.organizations.sealing import SealingKeys

        keys = SealingKeys.load(admin.settings)
        secret = await stored.set_secret(admin.db, keys, org, name, value)
        if keys.created_key_file:
            remark(
                f"Made the key that seals secrets: {keys.path}. Backups leave it out, so keep a "
                "copy elsewhere; a worker on another machine needs the same one."
            )
        return secret

    secret = with_store(data_dir, work)
    if json:
        answer_json(_document(secret))
        return
    answer(secret.name)
    remark(f"{secret.name} of {org} is stored, sealed with key {secret.key_id}.")


@secrets.command("list")
def list_secrets(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """List the secrets of an organization, without their values."""

    async def work(admin: Admin) -> "list[Secret]":
        from agentjobs.organizations import secrets as stored

        return await stored.list_secrets(admin.db, org)

    found = [_document(secret) for secret in with_store(data_dir, work)]
    if json:
        answer_json({"secrets": found})
        return
    answer_table(
        ("name", "sealed with", "created", "updated"), [[*each.values()] for each in found]
    )


@secrets.command("remove")
def remove_secret(
    name: Name, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Remove a secret; jobs that start from now on do not get it."""

    async def work(admin: Admin) -> None:
        from agentjobs.organizations import secrets as stored

        await stored.remove_secret(admin.db, org, name)

    with_store(data_dir, work)
    if json:
        answer_json({"name": name, "removed": True})
        return
    answer(name)
    remark(f"{name} of {org} is removed.")


def _read_value(name: str) -> str:
    """Never an argument: arguments are seen by every user of the machine, and kept by shells."""
    from agentjobs.organizations.secrets import MAX_VALUE_BYTES

    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return _ask(name)
    # A little more than is allowed, so that too much is refused and not cut.
    data = sys.stdin.buffer.read(MAX_VALUE_BYTES + 3)
    return data.decode().removesuffix("\n").removesuffix("\r")


def _ask(name: str) -> str:
    import getpass

    try:
        return getpass.getpass(f"Value of {name}: ")
    except EOFError:
        return ""


def _document(secret: "Secret") -> dict[str, Any]:
    from agentjobs.clock import iso_utc

    return {
        "name": secret.name,
        "key_id": secret.key_id,
        "created_at": iso_utc(secret.created_at),
        "updated_at": iso_utc(secret.updated_at),
    }
