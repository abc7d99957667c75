"""`agentjobs webhooks test`: sends a test event to an endpoint and prints the response."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import escape_line, print_json, print_note, print_result
from agentjobs.cli.webhooks.commands import EndpointName, sealing_keys, webhooks
from agentjobs.cli.webhooks.text import format_response, org_option

if TYPE_CHECKING:
    from agentjobs.webhooks.endpoints import Endpoint
    from agentjobs.webhooks.model import Attempt

_EXIT_NOT_DELIVERED = 1
_FIELDS = ("status_code", "duration_ms", "address", "error_class", "error")


@webhooks.command("test")
def ping_endpoint(
    endpoint: EndpointName,
    event: Annotated[
        str,
        typer.Option("--event", metavar="NAME", help="Send a sample of this event."),
    ] = "ping",
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Send a test event from this machine and print the response."""
    pinged, delivery_id, attempt = with_store(
        data_dir, lambda admin: _send(admin, org, endpoint, event)
    )
    if json:
        print_json(_document(pinged, delivery_id, attempt))
    else:
        _print_result(pinged, delivery_id, attempt)
    if not attempt.succeeded:
        raise typer.Exit(_EXIT_NOT_DELIVERED)


async def _send(admin: Admin, org: str, name: str, event: str) -> "tuple[Endpoint, str, Attempt]":
    from agentjobs.webhooks.allowed_addresses import load_allow_list
    from agentjobs.webhooks.endpoints import find_endpoint
    from agentjobs.webhooks.ping import sample_event, send_test
    from agentjobs_runtime.outbound.guard.sessions import load_tls_context
    from agentjobs_runtime.settings import SettingsError

    sample_event(event)
    endpoint = await find_endpoint(admin.db, org, name)
    allowed = await load_allow_list(admin.db, admin.settings)
    try:
        # Fails before a delivery is created that could not be sent.
        load_tls_context(admin.settings.ca_file)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    keys = sealing_keys(admin)
    sent = await send_test(admin.db, keys, admin.settings, endpoint.id, allowed, event)
    return endpoint, *sent


def _document(endpoint: "Endpoint", delivery_id: str, attempt: "Attempt") -> dict[str, Any]:
    return {
        "id": delivery_id,
        "endpoint": endpoint.id,
        "url": endpoint.url,
        "succeeded": attempt.succeeded,
        **{field: getattr(attempt, field) for field in _FIELDS},
    }


def _print_result(endpoint: "Endpoint", delivery_id: str, attempt: "Attempt") -> None:
    from agentjobs.webhooks.endpoints import disabled_text

    if reason := disabled_text(endpoint):
        print_note(f"{endpoint.id} is disabled and receives only this test: {reason}")
    print_result(escape_line(_result(attempt)))
    print_note(f"For details: agentjobs webhooks show {delivery_id}{org_option(endpoint)}")


def _result(attempt: "Attempt") -> str:
    response = format_response(attempt)
    if attempt.succeeded:
        return f"delivered: {response}"
    return f"failed: {response}: {attempt.error_class}: {attempt.error}"
