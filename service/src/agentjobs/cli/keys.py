"""`agentjobs keys`: API keys. A new key is printed once, alone on stdout."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Secret, Table, to_document
from agentjobs.cli.store_command import Work, store_command
from agentjobs.cli.times import EXPIRY_HELP, parse_expiry_ms

if TYPE_CHECKING:
    from agentjobs.organizations.api_keys import ApiKey

keys = typer.Typer(no_args_is_help=True, help="Manage API keys.")

TABLE = (
    *("id", "name", "key", "scope", "git write", "created", "last used", "expires", "revoked"),
    "networks",
)
FIELDS = ("id", "name", "hint", "scope", "git_write")
TIMES = ("created_at", "last_used_at", "expires_at", "revoked_at")

ExpiresIn = Annotated[
    str | None,
    typer.Option("--expires-in", metavar="WHEN", help=f"When the key expires: {EXPIRY_HELP}"),
]
Networks = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="CIDR",
        help="Allow only clients in this network. Repeat it, or separate networks by commas; "
        "`any` allows all.",
    ),
]
_ANY = "any"


@keys.command("create")
@store_command
def create_key(
    *,
    org: Org = DEFAULT_ORG,
    name: Annotated[
        str, typer.Option("--name", help="Name that says what the key is used for.")
    ] = "",
    expires_days: Annotated[
        int | None,
        typer.Option("--expires-days", help="Expire after this many days (default: never)."),
    ] = None,
    expires_in: ExpiresIn = None,
    network: Networks = None,
    scope: Annotated[
        str, typer.Option("--scope", metavar="read|jobs", help="read allows GET requests only.")
    ] = "jobs",
    pulls: Annotated[
        bool, typer.Option("--pulls", help="Allow merging and closing pull requests.")
    ] = False,
    git_write: Annotated[
        bool, typer.Option("--git-write", help="Allow pushing to local repositories.")
    ] = False,
) -> Work:
    """Create an API key. It is printed only once."""
    if expires_days is not None and expires_in is not None:
        raise typer.BadParameter("--expires-days and --expires-in exclude each other")

    async def work(admin: Admin) -> Secret:
        from agentjobs.organizations import api_keys

        created = await api_keys.create_key(
            admin.db,
            org,
            name=name,
            scope=scope,
            pulls=pulls,
            git_write=git_write,
            expires_at=await _expiry(
                admin, expires_in if expires_days is None else f"{expires_days}d"
            ),
            allowed_networks=_split(network or []),
        )
        key_id = created.record.id
        return Secret(
            {"key": created.key, **_document(created.record)},
            [f"Created {key_id} for {org}. Store the key now: it is not shown again."],
            created.key,
            f"{key_id} was revoked; create another key.",
            lambda admin: api_keys.revoke_key(admin.db, org, key_id),
            "key",
        )

    return work


@keys.command("list")
@store_command
async def list_keys(admin: Admin, org: Org = DEFAULT_ORG) -> Table:
    """List the API keys of an organization, without their values."""
    from agentjobs.organizations import api_keys

    documents = [_document(key) for key in await api_keys.list_keys(admin.db, org)]
    return Table(
        {"keys": documents},
        TABLE,
        [
            [
                *(document[field] for field in (*FIELDS, *TIMES)),
                ", ".join(document["allowed_networks"]) or "any",
            ]
            for document in documents
        ],
    )


@keys.command("edit")
@store_command
def edit_key(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of the key.")],
    name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    expires_in: ExpiresIn = None,
    network: Networks = None,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Change the name, expiry or allowed networks of a key. Applies within a second."""
    if name is None and expires_in is None and network is None:
        raise typer.BadParameter("give --name, --expires-in or --network")

    async def work(admin: Admin) -> Answer:
        from msgspec import UNSET

        from agentjobs.organizations import api_keys

        changes = api_keys.KeyChanges(
            name=UNSET if name is None else name,
            expires_at=UNSET if expires_in is None else await _expiry(admin, expires_in),
            allowed_networks=UNSET if network is None else _split(network),
        )
        edited = await api_keys.edit_key(admin.db, org, key, changes)
        note = f"Changed {edited.id} ({edited.name})."
        return Answer(_document(edited), [edited.id], [note])

    return work


@keys.command("revoke")
@store_command
async def revoke_key(
    admin: Admin,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of the key, or the key itself.")],
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Revoke an API key. Requests with it fail within a second."""
    from agentjobs.organizations import api_keys

    revoked = await api_keys.revoke_key(admin.db, org, key)
    note = f"Revoked {revoked.id} ({revoked.name})."
    return Answer(_document(revoked), [revoked.id], [note])


async def _expiry(admin: Admin, text: str | None) -> int | None:
    return None if text is None else parse_expiry_ms(text, await admin.db.clock_ms())


def _split(networks: list[str]) -> list[str]:
    from agentjobs.organizations.key_networks import split_networks

    texts = split_networks(",".join(networks))
    return [] if [text.lower() for text in texts] == [_ANY] else texts


def _document(key: "ApiKey") -> dict[str, Any]:
    return to_document(key, FIELDS, TIMES, allowed_networks=list(key.allowed_networks))
