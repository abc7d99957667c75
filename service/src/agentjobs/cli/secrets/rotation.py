"""`agentjobs secrets rotate-key`."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.output import Answer, print_note
from agentjobs.cli.secrets.commands import secrets
from agentjobs.cli.store_command import store_command

if TYPE_CHECKING:
    from agentjobs.organizations.key_rotation import RotationResult

_UNREADABLE = 1


@secrets.command("rotate-key")
@store_command
async def rotate_key(
    admin: Admin,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare", help="Only add a new key to the file, to copy it to other machines first."
        ),
    ] = False,
) -> Answer:
    """Encrypt all secrets with a new key, while the services run. Continues after an interruption.

    Exit codes: 0 done, 1 some secrets cannot be decrypted, 2 failed.
    """
    from agentjobs.app.sealed_columns import SEALED_COLUMNS
    from agentjobs.organizations import key_rotation

    if prepare:
        result = await key_rotation.prepare_rotation(admin.settings)
    else:
        result = await key_rotation.rotate_key(
            admin.db,
            admin.settings,
            SEALED_COLUMNS,
            lambda kind, number: print_note(f"{kind}: {number} encrypted with the new key"),
        )
    document = {
        "key_id": result.key_id,
        "previous_key_ids": list(result.previous_key_ids),
        "resealed": result.resealed,
        "failures": list(result.failures),
        "complete": result.is_complete,
    }
    note = _describe_rotation(result, is_prepared=prepare)
    exit_code = _UNREADABLE if result.failures else 0
    return Answer(document, [result.key_id], [note], exit_code=exit_code)


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
