"""`agentjobs webhooks test`: sends a test event to an endpoint and prints the response."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, escape_line
from agentjobs.cli.store_command import store_command
from agentjobs.cli.webhooks.commands import EndpointName, sealing_keys, webhooks
from agentjobs.cli.webhooks.text import format_response, org_option

if TYPE_CHECKING:
    from agentjobs.webhooks.endpoints import Endpoint
    from agentjobs.webhooks.model import Attempt

_EXIT_NOT_DELIVERED = 1
_FIELDS = ("status_code", "duration_ms", "address", "error_class", "error")


@webhooks.command("test")
@store_command
async def ping_endpoint(
    admin: Admin,
    endpoint: EndpointName,
    event: Annotated[
        str,
        typer.Option("--event", metavar="NAME", help="Send a sample of this event."),
    ] = "ping",
    org: Org = DEFAULT_ORG,
) -> Answer:
    """Send a test event from this machine and print the response."""
    from agentjobs.webhooks.endpoints import disabled_text

    pinged, delivery_id, attempt = await _send(admin, org, endpoint, event)
    notes = [f"For details: agentjobs webhooks show {delivery_id}{org_option(pinged)}"]
    if reason := disabled_text(pinged):
        notes.insert(0, f"{pinged.id} is disabled and receives only this test: {reason}")
    document = {
        "id": delivery_id,
        "endpoint": pinged.id,
        "url": pinged.url,
        "succeeded": attempt.succeeded,
        **{field: getattr(attempt, field) for field in _FIELDS},
    }
    exit_code = 0 if attempt.succeeded else _EXIT_NOT_DELIVERED
    return Answer(document, [escape_line(_result(attempt))], notes, exit_code=exit_code)


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


def _result(attempt: "Attempt") -> str:
    response = format_response(attempt)
    if attempt.succeeded:
        return f"delivered: {response}"
    return f"failed: {response}: {attempt.error_class}: {attempt.error}"
