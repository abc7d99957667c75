"""`agentjobs webhooks`: endpoints. A secret is printed once, alone on stdout, and never again."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import answer, answer_json, answer_table, remark, why_not_shown
from agentjobs.cli.webhooks.text import TABLE, document, events_text, flag, line

if TYPE_CHECKING:
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.store.database import Database
    from agentjobs.webhooks.endpoints import Endpoint
    from agentjobs.webhooks.registration import CreatedEndpoint

webhooks = typer.Typer(no_args_is_help=True, help="Where events are sent, signed.")

# No event has this name.
_ALL = "all"

EndpointName = Annotated[
    str, typer.Argument(metavar="ENDPOINT", help="Its identifier, or its exact address.")
]


@webhooks.command("add")
def add_endpoint(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to send; https.")],
    events: Annotated[
        list[str] | None,
        typer.Option("--events", metavar="NAMES", help="Only these, as a,b (default: all)."),
    ] = None,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Add an endpoint and print its secret, this once."""

    async def work(admin: Admin) -> "tuple[CreatedEndpoint, SealingKeys]":
        from agentjobs.webhooks import registration
        from agentjobs.webhooks.allowed_addresses import load_allow_list

        keys = sealing_keys(admin)
        created = await registration.add_endpoint(
            admin.db,
            keys,
            org,
            url,
            description=description,
            events=_names(events or []),
            allowed=await load_allow_list(admin.db, admin.settings),
            has_proxy=bool(admin.settings.webhooks_proxy),
        )
        return created, keys

    created, keys = with_store(data_dir, work)

    def show() -> None:
        tell_of_key(keys)
        _show_created(created, json=json)

    if reason := why_not_shown(show):
        _take_back(data_dir, created.endpoint, reason)


@webhooks.command("list")
def list_endpoints(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """List the endpoints of an organization, without their secrets."""

    async def work(admin: Admin) -> "list[Endpoint]":
        from agentjobs.webhooks import endpoints

        return await endpoints.list_endpoints(admin.db, org)

    found = with_store(data_dir, work)
    if json:
        answer_json({"webhooks": [document(endpoint) for endpoint in found]})
        return
    answer_table(TABLE, [line(endpoint) for endpoint in found])


@webhooks.command("edit")
def edit_endpoint(
    endpoint: EndpointName,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="Where to send.")] = None,
    events: Annotated[
        list[str] | None,
        typer.Option("--events", metavar="NAMES", help=f"Only these, as a,b; or {_ALL}."),
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", help="What it is for.")
    ] = None,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Change where an endpoint is, what it gets or what it is for; its secret stays."""
    if url is None and not events and description is None:
        raise typer.BadParameter("say what to change: --url, --events or --description")

    async def work(admin: Admin) -> "tuple[Endpoint, str | None]":
        from agentjobs.webhooks.allowed_addresses import load_allow_list
        from agentjobs.webhooks.registration import update_endpoint

        return await update_endpoint(
            admin.db,
            org,
            endpoint,
            url=url,
            description=description,
            events=_chosen(events),
            allowed=await load_allow_list(admin.db, admin.settings),
            has_proxy=bool(admin.settings.webhooks_proxy),
        )

    changed, warning = with_store(data_dir, work)
    if json:
        answer_json({**document(changed), "warning": warning})
        return
    if warning:
        remark(f"Warning: {warning}")
    answer_changed(changed, f"is for {events_text(changed)} at {changed.url} now.", json=False)


@webhooks.command("disable")
def disable_endpoint(
    endpoint: EndpointName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Send nothing more to an endpoint; what waits for it fails."""
    from agentjobs.webhooks import endpoints

    disabled = change(data_dir, endpoints.disable_endpoint, org, endpoint)
    answer_changed(disabled, f"is disabled: {endpoints.disabled_text(disabled)}", json=json)


@webhooks.command("enable")
def enable_endpoint(
    endpoint: EndpointName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Send to an endpoint again, events from now on."""
    from agentjobs.webhooks import endpoints

    enabled = change(data_dir, endpoints.enable_endpoint, org, endpoint)
    answer_changed(
        enabled,
        "is enabled. What failed before can be sent again: agentjobs webhooks redeliver "
        f"--failed-since TIME --endpoint {enabled.id}{flag(enabled)}",
        json=json,
    )


@webhooks.command("remove")
def remove_endpoint(
    endpoint: EndpointName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Remove an endpoint and its secrets; its deliveries stay in the log for their time."""
    from agentjobs.webhooks import endpoints

    removed = change(data_dir, endpoints.remove_endpoint, org, endpoint)
    if json:
        answer_json({"id": removed.id, "url": removed.url, "removed": True})
        return
    answer_changed(removed, f"({removed.url}) is removed.", json=False)


def change(
    data_dir: Path | None,
    verb: "Callable[[Database, str, str], Awaitable[Endpoint]]",
    org: str,
    endpoint: str,
) -> "Endpoint":
    async def work(admin: Admin) -> "Endpoint":
        return await verb(admin.db, org, endpoint)

    return with_store(data_dir, work)


def answer_changed(endpoint: "Endpoint", what: str, *, json: bool) -> None:
    if json:
        answer_json(document(endpoint))
        return
    answer(endpoint.id)
    remark(f"{endpoint.id} {what}")


def sealing_keys(admin: Admin) -> "SealingKeys":
    from agentjobs.organizations.sealing import SealingKeys

    return SealingKeys.load(admin.settings)


def tell_of_key(keys: "SealingKeys") -> None:
    if keys.created_key_file:
        remark(
            f"Made the key that seals secrets: {keys.path}. Backups leave it out, so keep a copy "
            "elsewhere; a sender on another machine needs the same one."
        )


def _show_created(created: "CreatedEndpoint", *, json: bool) -> None:
    endpoint, secret, warning = created
    if json:
        answer_json({"secret": secret, **document(endpoint), "warning": warning})
        return
    if warning:
        remark(f"Warning: {warning}")
    remark(
        f"{endpoint.id}, an endpoint of {endpoint.organization} for {events_text(endpoint)}. Its "
        "secret is shown this once; the receiver checks signatures with it."
    )
    remark(f"To try it: agentjobs webhooks test {endpoint.id}{flag(endpoint)}")
    answer(secret)


def _take_back(data_dir: Path | None, endpoint: "Endpoint", reason: str) -> None:
    from agentjobs.problems import Problem
    from agentjobs.webhooks import endpoints

    change(data_dir, endpoints.remove_endpoint, endpoint.organization, endpoint.id)
    raise Problem(
        "secret_not_shown",
        f"The secret could not be written: {reason}. Nobody would know it, so {endpoint.id} is "
        "removed again; add it once more.",
    )


def _chosen(texts: list[str] | None) -> list[str] | None:
    """None: they stay; none of them: all of them."""
    names = _names(texts) if texts else None
    return [] if names == [_ALL] else names


def _names(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",")]
