"""`agentjobs webhooks rotate-secret` and `promote-secret`."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Secret
from agentjobs.cli.store_command import store_command
from agentjobs.cli.webhooks.commands import (
    EndpointName,
    changed_endpoint,
    new_key_remarks,
    sealing_keys,
    webhooks,
)
from agentjobs.cli.webhooks.text import endpoint_document, org_option
from agentjobs_runtime.clock import iso_utc

if TYPE_CHECKING:
    from agentjobs.webhooks.endpoints import Endpoint


@webhooks.command("rotate-secret")
@store_command
async def rotate_secret(
    admin: Admin,
    endpoint: EndpointName,
    overlap_hours: Annotated[
        int,
        typer.Option(
            "--overlap-hours",
            min=0,
            max=168,
            help="Hours during which both secrets sign; 0 replaces the old one at once.",
        ),
    ] = 24,
    org: Org = DEFAULT_ORG,
) -> Secret:
    """Create a new secret and print it once. The old one keeps signing during the overlap."""
    from agentjobs.webhooks import secret_rotation

    keys = sealing_keys(admin)
    rotated, secret = await secret_rotation.rotate_secret(
        admin.db, keys, org, endpoint, overlap_hours
    )
    start = "now" if rotated.promote_at is None else f"at {iso_utc(rotated.promote_at)}"
    return Secret(
        {"secret": secret, **endpoint_document(rotated)},
        [_describe_rotation(rotated)],
        secret,
        f"No one knows it, and it becomes the only signing secret {start}. Create another: "
        f"agentjobs webhooks rotate-secret {rotated.id}{org_option(rotated)} --overlap-hours "
        f"{overlap_hours}",
        what="new secret",
        remarks=new_key_remarks(keys),
    )


@webhooks.command("promote-secret")
@store_command
async def promote_secret(admin: Admin, endpoint: EndpointName, org: Org = DEFAULT_ORG) -> Answer:
    """End the overlap now: only the new secret signs."""
    from agentjobs.webhooks import secret_rotation

    promoted = await secret_rotation.promote_secret(admin.db, org, endpoint)
    return changed_endpoint(promoted, "now signs with its new secret only.")


def _describe_rotation(endpoint: "Endpoint") -> str:
    if endpoint.promote_at is None:
        return f"From now on only the new secret of {endpoint.id} signs."
    return (
        f"Both secrets of {endpoint.id} sign until {iso_utc(endpoint.promote_at)}, then only the "
        f"new one. To promote it sooner: agentjobs webhooks promote-secret "
        f"{endpoint.id}{org_option(endpoint)}"
    )
