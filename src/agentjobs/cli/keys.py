"""`agentjobs keys`: API keys. A new key is printed once, alone on stdout, and never again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import answer, answer_json, answer_table, remark, why_not_shown

if TYPE_CHECKING:
    from agentjobs.organizations.api_keys import ApiKey, CreatedKey

keys = typer.Typer(no_args_is_help=True, help="API keys of an organization.")

TABLE = ("id", "name", "key", "scope", "git write", "created", "last used", "expires", "revoked")
FIELDS = ("id", "name", "hint", "scope", "git_write")
TIMES = ("created_at", "last_used_at", "expires_at", "revoked_at")


@keys.command("create")
def create_key(
    org: Org = DEFAULT_ORG,
    name: Annotated[str, typer.Option("--name", help="What the key is for.")] = "",
    expires_days: Annotated[
        int | None, typer.Option("--expires-days", help="Days until it expires (default: never).")
    ] = None,
    scope: Annotated[
        str, typer.Option("--scope", metavar="read|jobs", help="read: GET requests only.")
    ] = "jobs",
    git_write: Annotated[
        bool, typer.Option("--git-write", help="May push to repositories kept by the service.")
    ] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Create a key and print it, this once."""

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
            answer_json({"key": created.key, **_document(created.record)})
            return
        remark(f"{created.record.id}, an API key of {org}. It is shown this once; keep it safe.")
        answer(created.key)

    if reason := why_not_shown(show):
        _take_back(data_dir, org, created.record.id, reason)


@keys.command("list")
def list_keys(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """List the keys of an organization, without the keys themselves."""

    async def work(admin: Admin) -> "list[ApiKey]":
        from agentjobs.organizations import api_keys

        return await api_keys.list_keys(admin.db, org)

    found = [_document(key) for key in with_store(data_dir, work)]
    if json:
        answer_json({"keys": found})
        return
    answer_table(TABLE, [[each[field] for field in (*FIELDS, *TIMES)] for each in found])


@keys.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its identifier, or the key itself.")],
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Revoke a key; it is refused everywhere within a second."""

    revoked = _revoke(data_dir, org, key)
    if json:
        answer_json(_document(revoked))
        return
    answer(revoked.id)
    remark(f"{revoked.id} ({revoked.name}) is revoked.")


def _revoke(data_dir: Path | None, org: str, key: str) -> "ApiKey":
    async def work(admin: Admin) -> "ApiKey":
        from agentjobs.organizations import api_keys

        return await api_keys.revoke_key(admin.db, org, key)

    return with_store(data_dir, work)


def _take_back(data_dir: Path | None, org: str, key_id: str, reason: str) -> None:
    from agentjobs.problems import Problem

    _revoke(data_dir, org, key_id)
    raise Problem(
        "key_not_shown",
        f"The key could not be written: {reason}. Nobody would know it, so {key_id} is revoked; "
        "create another.",
    )


def _document(key: "ApiKey") -> dict[str, Any]:
    from agentjobs.clock import iso_utc_or_none

    document: dict[str, Any] = {field: getattr(key, field) for field in FIELDS}
    document.update({field: iso_utc_or_none(getattr(key, field)) for field in TIMES})
    return document
