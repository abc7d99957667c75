"""`agentjobs keys`: API keys. A new key is printed once, alone on stdout."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import print_json, print_note, print_result, print_secret, print_table

if TYPE_CHECKING:
    from agentjobs.organizations.api_keys import ApiKey, CreatedKey

keys = typer.Typer(no_args_is_help=True, help="Manage API keys.")

TABLE = ("id", "name", "key", "scope", "git write", "created", "last used", "expires", "revoked")
FIELDS = ("id", "name", "hint", "scope", "git_write")
TIMES = ("created_at", "last_used_at", "expires_at", "revoked_at")


@keys.command("create")
def create_key(
    org: Org = DEFAULT_ORG,
    name: Annotated[
        str, typer.Option("--name", help="Name that says what the key is used for.")
    ] = "",
    expires_days: Annotated[
        int | None,
        typer.Option("--expires-days", help="Expire after this many days (default: never)."),
    ] = None,
    scope: Annotated[
        str, typer.Option("--scope", metavar="read|jobs", help="read allows GET requests only.")
    ] = "jobs",
    git_write: Annotated[
        bool, typer.Option("--git-write", help="Allow pushing to local repositories.")
    ] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Create an API key. It is printed only once."""

    async def work(admin: Admin) -> "CreatedKey":
        from agentjobs.organizations import api_keys

        return await api_keys.create_key(
            admin.db,
            org,
            name=name,
            scope=scope,
            git_write=git_write,
            expires_days=expires_days,
        )

    created = with_store(data_dir, work)

    def show() -> None:
        if json:
            print_json({"key": created.key, **_document(created.record)})
            return
        print_note(
            f"Created {created.record.id} for {org}. Store the key now: it is not shown again."
        )
        print_result(created.key)

    if reason := print_secret(show):
        _revoke_unprinted(data_dir, org, created.record.id, reason)


@keys.command("list")
def list_keys(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """List the API keys of an organization, without their values."""

    async def work(admin: Admin) -> "list[ApiKey]":
        from agentjobs.organizations import api_keys

        return await api_keys.list_keys(admin.db, org)

    documents = [_document(key) for key in with_store(data_dir, work)]
    if json:
        print_json({"keys": documents})
        return
    print_table(TABLE, [[each[field] for field in (*FIELDS, *TIMES)] for each in documents])


@keys.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of the key, or the key itself.")],
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Revoke an API key. Requests with it fail within a second."""

    revoked = _revoke(data_dir, org, key)
    if json:
        print_json(_document(revoked))
        return
    print_result(revoked.id)
    print_note(f"Revoked {revoked.id} ({revoked.name}).")


def _revoke(data_dir: Path | None, org: str, key: str) -> "ApiKey":
    async def work(admin: Admin) -> "ApiKey":
        from agentjobs.organizations import api_keys

        return await api_keys.revoke_key(admin.db, org, key)

    return with_store(data_dir, work)


def _revoke_unprinted(data_dir: Path | None, org: str, key_id: str, reason: str) -> None:
    from agentjobs.problems import Problem

    _revoke(data_dir, org, key_id)
    raise Problem(
        "key_not_shown",
        f"The key could not be printed: {reason}. {key_id} was revoked; create another key.",
    )


def _document(key: "ApiKey") -> dict[str, Any]:
    from agentjobs.clock import iso_utc_or_none

    document: dict[str, Any] = {field: getattr(key, field) for field in FIELDS}
    document.update({field: iso_utc_or_none(getattr(key, field)) for field in TIMES})
    return document
