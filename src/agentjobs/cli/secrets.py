"""`agentjobs secrets`: secrets such as model API keys. Values are never printed."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import print_json, print_note, print_result, print_table

if TYPE_CHECKING:
    from agentjobs.organizations.key_rotation import RotationResult
    from agentjobs.organizations.secrets import Secret

secrets = typer.Typer(no_args_is_help=True, help="Manage secrets, encrypted at rest.")

_UNREADABLE = 1
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name, such as ANTHROPIC_API_KEY.")]


@secrets.command("set")
def set_secret(
    name: Name, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Set a secret. Reads the value from standard input, or prompts for it."""
    value = _read_value(name)

    async def work(admin: Admin) -> "Secret":
        from agentjobs.organizations import secrets as stored
        from agentjobs.organizations.sealing import SealingKeys

        keys = SealingKeys.load(admin.settings)
        secret = await stored.set_secret(admin.db, keys, org, name, value)
        if keys.created_key_file:
            print_note(
                f"Created the encryption key {keys.path}. Backups do not include it: keep a copy "
                "elsewhere. Workers on other machines need the same key."
            )
        return secret

    secret = with_store(data_dir, work)
    if json:
        print_json(_document(secret))
        return
    print_result(secret.name)
    print_note(f"Set {secret.name} of {org}, encrypted with key {secret.key_id}.")


@secrets.command("list")
def list_secrets(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """List the secrets of an organization, without their values."""

    async def work(admin: Admin) -> "list[Secret]":
        from agentjobs.organizations import secrets as stored

        return await stored.list_secrets(admin.db, org)

    documents = [_document(secret) for secret in with_store(data_dir, work)]
    if json:
        print_json({"secrets": documents})
        return
    print_table(
        ("name", "sealed with", "created", "updated"), [[*each.values()] for each in documents]
    )


@secrets.command("remove")
def remove_secret(
    name: Name, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Remove a secret. Jobs that start afterwards do not receive it."""

    async def work(admin: Admin) -> None:
        from agentjobs.organizations import secrets as stored

        await stored.remove_secret(admin.db, org, name)

    with_store(data_dir, work)
    if json:
        print_json({"name": name, "removed": True})
        return
    print_result(name)
    print_note(f"Removed {name} of {org}.")


@secrets.command("rotate-key")
def rotate_key(
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare", help="Only add a new key to the file, to copy it to other machines first."
        ),
    ] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Encrypt all secrets with a new key, while the services run. Continues after an interruption.

    Exit codes: 0 done, 1 some secrets cannot be decrypted, 2 failed.
    """

    async def work(admin: Admin) -> "RotationResult":
        from agentjobs.app.sealed_values import SEALED_VALUES
        from agentjobs.organizations import key_rotation

        if prepare:
            return await key_rotation.prepare_rotation(admin.settings)
        return await key_rotation.rotate_key(
            admin.db,
            admin.settings,
            SEALED_VALUES,
            lambda kind, number: print_note(f"{kind}: {number} encrypted with the new key"),
        )

    result = with_store(data_dir, work)
    if json:
        print_json(_rotation_document(result))
    else:
        print_result(result.key_id)
        print_note(_describe_rotation(result, is_prepared=prepare))
    if result.failures:
        raise typer.Exit(_UNREADABLE)


def _rotation_document(result: "RotationResult") -> dict[str, Any]:
    return {
        "key_id": result.key_id,
        "previous_key_ids": list(result.previous_key_ids),
        "resealed": result.resealed,
        "failures": list(result.failures),
        "complete": result.is_complete,
    }


def _describe_rotation(result: "RotationResult", *, is_prepared: bool) -> str:
    previous = ", ".join(result.previous_key_ids) or "none"
    if is_prepared:
        return (
            f"Added the key {result.key_id} to the file; it is not used yet. Copy the file to all "
            "machines, then run `agentjobs secrets rotate-key`."
        )
    if result.failures:
        listed = "\n".join(result.failures)
        return (
            f"These values cannot be decrypted, so the old keys are kept:\n{listed}\n"
            "Replace or remove them, then run the command again."
        )
    return (
        f"Everything is encrypted with the key {result.key_id}. Backups made before need the "
        f"previous keys: {previous}."
    )


def _read_value(name: str) -> str:
    """Not from an argument, which other users can see and shells keep in their history."""
    from agentjobs.organizations.secrets import MAX_VALUE_BYTES

    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return _prompt(name)
    # Slightly more than allowed, so that a longer value fails instead of being cut.
    data = sys.stdin.buffer.read(MAX_VALUE_BYTES + 3)
    return data.decode().removesuffix("\n").removesuffix("\r")


def _prompt(name: str) -> str:
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
