"""`agentjobs webhooks`: manages endpoints. A secret is printed once, alone on stdout."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Secret, Table
from agentjobs.cli.store_command import Work, store_command
from agentjobs.cli.webhooks.text import (
    ENDPOINT_COLUMNS,
    endpoint_document,
    endpoint_row,
    events_text,
    org_option,
)

if TYPE_CHECKING:
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.webhooks.endpoints import Endpoint

webhooks = typer.Typer(no_args_is_help=True, help="Manage webhook endpoints and deliveries.")

# This word is not the name of an event.
_ALL = "all"

EndpointName = Annotated[str, typer.Argument(metavar="ENDPOINT", help="Endpoint ID or exact URL.")]


@webhooks.command("add")
@store_command
async def add_endpoint(
    admin: Admin,
    url: Annotated[str, typer.Argument(metavar="URL", help="HTTPS URL that receives events.")],
    events: Annotated[
        list[str] | None,
        typer.Option(
            "--events", metavar="NAMES", help="Comma-separated events to send (default: all)."
        ),
    ] = None,
    description: Annotated[
        str, typer.Option("--description", help="What the endpoint is for.")
    ] = "",
    org: Org = DEFAULT_ORG,
) -> Secret:
    """Add an endpoint and print its secret. The secret is shown only once."""
    from agentjobs.webhooks import endpoints, registration
    from agentjobs.webhooks.allowed_addresses import load_allow_list

    keys = sealing_keys(admin)
    endpoint, secret, warning = await registration.add_endpoint(
        admin.db,
        keys,
        org,
        url,
        description=description,
        events=_split_names(events or []),
        allowed=await load_allow_list(admin.db, admin.settings),
        has_proxy=bool(admin.settings.webhooks_proxy),
    )
    notes = [
        *([f"Warning: {warning}"] if warning else []),
        (
            f"Added {endpoint.id} to {endpoint.organization} for {events_text(endpoint)}. Its"
            " secret is shown only once; the receiver verifies signatures with it."
        ),
        f"To test it: agentjobs webhooks test {endpoint.id}{org_option(endpoint)}",
    ]
    return Secret(
        {"secret": secret, **endpoint_document(endpoint), "warning": warning},
        notes,
        secret,
        f"{endpoint.id} was removed again, because no one would know its secret. Add it again.",
        lambda admin: endpoints.remove_endpoint(admin.db, endpoint.organization, endpoint.id),
        remarks=new_key_remarks(keys),
    )


@webhooks.command("list")
@store_command
async def list_endpoints(admin: Admin, org: Org = DEFAULT_ORG) -> Table:
    """List the endpoints of an organization."""
    from agentjobs.webhooks import endpoints

    listed = await endpoints.list_endpoints(admin.db, org)
    documents = [endpoint_document(endpoint) for endpoint in listed]
    rows = [endpoint_row(endpoint) for endpoint in listed]
    return Table({"webhooks": documents}, ENDPOINT_COLUMNS, rows)


@webhooks.command("edit")
@store_command
def edit_endpoint(
    endpoint: EndpointName,
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="New URL.")] = None,
    events: Annotated[
        list[str] | None,
        typer.Option(
            "--events", metavar="NAMES", help=f"Comma-separated events to send, or `{_ALL}`."
        ),
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", help="What the endpoint is for.")
    ] = None,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Change the URL, the events or the description of an endpoint. Its secret stays the same."""
    if url is None and not events and description is None:
        raise typer.BadParameter("specify at least one of --url, --events and --description")

    async def work(admin: Admin) -> Answer:
        from agentjobs.webhooks.allowed_addresses import load_allow_list
        from agentjobs.webhooks.registration import update_endpoint

        changed, warning = await update_endpoint(
            admin.db,
            org,
            endpoint,
            url=url,
            description=description,
            events=_parse_events(events),
            allowed=await load_allow_list(admin.db, admin.settings),
            has_proxy=bool(admin.settings.webhooks_proxy),
        )

        what = f"now receives {events_text(changed)} at {changed.url}."
        answer = changed_endpoint(changed, what, {"warning": warning})
        warnings = [f"Warning: {warning}"] if warning else []
        return answer._replace(notes=[*warnings, *answer.notes])

    return work


@webhooks.command("disable")
@store_command
async def disable_endpoint(admin: Admin, endpoint: EndpointName, org: Org = DEFAULT_ORG) -> Answer:
    """Disable an endpoint. Its waiting deliveries fail."""
    from agentjobs.webhooks import endpoints

    disabled = await endpoints.disable_endpoint(admin.db, org, endpoint)
    return changed_endpoint(disabled, f"is disabled: {endpoints.disabled_text(disabled)}")


@webhooks.command("enable")
@store_command
async def enable_endpoint(admin: Admin, endpoint: EndpointName, org: Org = DEFAULT_ORG) -> Answer:
    """Enable an endpoint. It receives events from now on."""
    from agentjobs.webhooks import endpoints

    enabled = await endpoints.enable_endpoint(admin.db, org, endpoint)
    return changed_endpoint(
        enabled,
        "is enabled. To resend failed deliveries: agentjobs webhooks redeliver "
        f"--failed-since TIME --endpoint {enabled.id}{org_option(enabled)}",
    )


@webhooks.command("remove")
@store_command
async def remove_endpoint(admin: Admin, endpoint: EndpointName, org: Org = DEFAULT_ORG) -> Answer:
    """Remove an endpoint and its secrets. Its deliveries stay in the log until they expire."""
    from agentjobs.webhooks import endpoints

    removed = await endpoints.remove_endpoint(admin.db, org, endpoint)
    document = {"id": removed.id, "url": removed.url, "removed": True}
    return Answer(document, [removed.id], [f"{removed.id} ({removed.url}) was removed."])


def changed_endpoint(
    endpoint: "Endpoint", what: str, more: Mapping[str, Any] | None = None
) -> Answer:
    document = {**endpoint_document(endpoint), **(more or {})}
    return Answer(document, [endpoint.id], [f"{endpoint.id} {what}"])


def sealing_keys(admin: Admin) -> "SealingKeys":
    from agentjobs.organizations.sealing import SealingKeys

    return SealingKeys.load(admin.settings)


def new_key_remarks(keys: "SealingKeys") -> list[str]:
    remark = (
        f"Created the key that encrypts secrets: {keys.path}. Backups do not include it, so "
        "keep a copy elsewhere. Senders on other machines need the same key."
    )
    return [remark] if keys.created_key_file else []


def _parse_events(texts: list[str] | None) -> list[str] | None:
    """None leaves the events unchanged; an empty list means all events."""
    names = _split_names(texts) if texts else None
    return [] if names == [_ALL] else names


def _split_names(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",")]
