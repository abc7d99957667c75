"""`agentjobs secrets`: secrets of models and of environments. Values are never printed."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.credential_input import read_secret
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Table, print_note
from agentjobs.cli.store_command import Work, store_command
from agentjobs_runtime.clock import iso_utc

if TYPE_CHECKING:
    from agentjobs.environments.secrets import EnvironmentSecret
    from agentjobs.organizations.secrets import Secret

secrets = typer.Typer(no_args_is_help=True, help="Manage secrets, encrypted at rest.")

_MODELS = "models"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name, such as ANTHROPIC_API_KEY.")]
Repo = Annotated[
    str, typer.Option("--repo", metavar="OWNER/NAME", help="The repository that uses it.")
]
Purpose = Annotated[
    str,
    typer.Option(
        "--for",
        metavar="PURPOSE",
        help="setup or proxy (of a repository's environment), registry (of images), or models.",
    ),
]
Host = Annotated[
    str, typer.Option("--host", metavar="HOST", help="The host that gets it (proxy, registry).")
]


@secrets.command("set")
@store_command
def set_secret(
    name: Name,
    *,
    org: Org = DEFAULT_ORG,
    repo: Repo = "",
    purpose: Purpose = _MODELS,
    host: Host = "",
    header: Annotated[
        str,
        typer.Option(
            metavar="HEADER", help="For the proxy, such as 'Authorization: Bearer {secret}'."
        ),
    ] = "",
    path_prefix: Annotated[
        str, typer.Option(metavar="PATH", help="For the proxy: only paths below this one.")
    ] = "",
    methods: Annotated[
        str, typer.Option(metavar="METHOD,…", help="For the proxy (default GET,HEAD).")
    ] = "",
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="For the proxy: the client to configure (pip, npm, cargo, go)."
        ),
    ] = "",
    username: Annotated[
        str, typer.Option(metavar="NAME", help="For a registry, whose password it is.")
    ] = "",
) -> Work:
    """Set a secret. Reads the value from standard input, or prompts for it."""
    usage = {
        "host": host,
        "header": header,
        "path_prefix": path_prefix,
        "methods": methods,
        "kind": kind,
        "username": username,
    }
    if purpose == _MODELS and (repo or any(usage.values())):
        raise typer.BadParameter("specify --for setup, --for proxy or --for registry")
    from agentjobs.organizations.secrets import MAX_VALUE_BYTES

    # Slightly more than allowed, so that a longer value fails instead of being cut.
    value = read_secret(f"Value of {name}", MAX_VALUE_BYTES + 3)

    async def work(admin: Admin) -> Answer:
        from agentjobs.environments.secret_definition import SecretInput, parse_secret
        from agentjobs.environments.secrets import set_environment_secret
        from agentjobs.organizations import secrets as stored
        from agentjobs.organizations.sealing import SealingKeys

        keys = SealingKeys.load(admin.settings)
        secret: Secret | EnvironmentSecret
        if purpose == _MODELS:
            secret = await stored.set_secret(admin.db, keys, org, name, value)
        else:
            entered = SecretInput(name=name, purpose=purpose, value=value, **usage)
            organization_id, repo_id = await _scope(admin, org, repo)
            definition = parse_secret(entered, repo_id)
            secret = await set_environment_secret(
                admin.db, keys, organization_id, definition, value
            )
        if keys.created_key_file:
            print_note(
                f"Created the encryption key {keys.path}. Backups do not include it: keep a copy "
                "elsewhere. Workers on other machines need the same key."
            )
        note = f"Set {name} of {repo or org}, encrypted with key {secret.key_id}."
        return Answer(_document(secret), [name], [note])

    return work


@secrets.command("list")
@store_command
async def list_secrets(admin: Admin, org: Org = DEFAULT_ORG, repo: Repo = "") -> Table:
    """List the secrets of an organization or of a repository, without their values."""
    from agentjobs.environments.secrets import list_environment_secrets
    from agentjobs.organizations import secrets as stored

    organization_id, repo_id = await _scope(admin, org, repo)
    of_models = [] if repo else await stored.list_secrets(admin.db, org)
    of_environments = await list_environment_secrets(admin.db, organization_id, repo_id or None)
    documents = [*map(_document, of_models), *map(_document, of_environments)]
    return Table(
        {"secrets": documents},
        ("name", "for", "repo", "host", "sealed with", "created", "updated"),
        [list(document.values())[:7] for document in documents],
    )


@secrets.command("remove")
@store_command
def remove_secret(
    name: Name,
    org: Org = DEFAULT_ORG,
    repo: Repo = "",
    purpose: Annotated[
        str, typer.Option("--for", metavar="PURPOSE", help="registry, or models (the default).")
    ] = "",
) -> Work:
    """Remove a secret. Jobs that start afterwards do not receive it."""
    if purpose not in ("", *(("setup", "proxy") if repo else (_MODELS, "registry"))):
        raise typer.BadParameter("specify --repo for setup and the proxy, or --for registry")

    async def work(admin: Admin) -> Answer:
        from agentjobs.environments.secrets import remove_environment_secret
        from agentjobs.organizations import secrets as stored

        if repo or purpose == "registry":
            organization_id, repo_id = await _scope(admin, org, repo)
            await remove_environment_secret(admin.db, organization_id, repo_id, name)
        else:
            await stored.remove_secret(admin.db, org, name)
        note = f"Removed {name} of {repo or org}."
        return Answer({"name": name, "removed": True}, [name], [note])

    return work


async def _scope(admin: Admin, org: str, repo: str) -> tuple[str, str]:
    """The identifiers of the organization and the repository."""
    if repo:
        organization_id, view = await admin.find_repo(org, repo)
        return organization_id, view.id
    return (await admin.find_organization(org)).id, ""


def _document(secret: "Secret | EnvironmentSecret") -> dict[str, Any]:
    from agentjobs.environments.secrets import EnvironmentSecret

    times = {
        "key_id": secret.key_id,
        "created_at": iso_utc(secret.created_at),
        "updated_at": iso_utc(secret.updated_at),
    }
    if not isinstance(secret, EnvironmentSecret):
        return {"name": secret.name, "for": _MODELS, "repo": None, "host": None, **times}
    definition = secret.definition
    return {
        "name": definition.name,
        "for": definition.purpose,
        "repo": secret.repo or None,
        "host": definition.host or None,
        **times,
        "usage": definition.usage,
    }
