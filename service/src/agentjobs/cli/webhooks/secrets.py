"""`agentjobs webhooks rotate-secret` and `promote-secret`."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import Answer, print_json, print_note, print_result, print_secret
from agentjobs.cli.store_command import store_command
from agentjobs.cli.webhooks.commands import (
    EndpointName,
    announce_new_key,
    changed_endpoint,
    sealing_keys,
    webhooks,
)
from agentjobs.cli.webhooks.text import endpoint_document, org_option

if TYPE_CHECKING:
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.webhooks.endpoints import Endpoint
    from agentjobs_runtime.problems import Problem


@webhooks.command("rotate-secret")
def rotate_secret(
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
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Create a new secret and print it once. The old one keeps signing during the overlap."""

    async def work(admin: Admin) -> "tuple[Endpoint, str, SealingKeys]":
        from agentjobs.webhooks import secret_rotation

        keys = sealing_keys(admin)
        rotated = await secret_rotation.rotate_secret(admin.db, keys, org, endpoint, overlap_hours)
        return *rotated, keys

    rotated, secret, keys = with_store(data_dir, work)

    def show() -> None:
        announce_new_key(keys)
        if json:
            print_json({"secret": secret, **endpoint_document(rotated)})
            return
        print_note(_describe_rotation(rotated))
        print_result(secret)

    if reason := print_secret(show):
        raise _secret_not_shown(rotated, overlap_hours, reason)


@webhooks.command("promote-secret")
@store_command
async def promote_secret(admin: Admin, endpoint: EndpointName, org: Org = DEFAULT_ORG) -> Answer:
    """End the overlap now: only the new secret signs."""
    from agentjobs.webhooks import secret_rotation

    promoted = await secret_rotation.promote_secret(admin.db, org, endpoint)
    return changed_endpoint(promoted, "now signs with its new secret only.")


def _secret_not_shown(endpoint: "Endpoint", overlap_hours: int, reason: str) -> "Problem":
    from agentjobs_runtime.clock import iso_utc
    from agentjobs_runtime.problems import Problem

    start = "now" if endpoint.promote_at is None else f"at {iso_utc(endpoint.promote_at)}"
    return Problem(
        "secret_not_shown",
        f"The new secret could not be printed: {reason}. No one knows it, and it becomes the only "
        f"signing secret {start}. Create another: agentjobs webhooks rotate-secret "
        f"{endpoint.id}{org_option(endpoint)} --overlap-hours {overlap_hours}",
    )


def _describe_rotation(endpoint: "Endpoint") -> str:
    from agentjobs_runtime.clock import iso_utc

    if endpoint.promote_at is None:
        return f"From now on only the new secret of {endpoint.id} signs."
    return (
        f"Both secrets of {endpoint.id} sign until {iso_utc(endpoint.promote_at)}, then only the "
        f"new one. To promote it sooner: agentjobs webhooks promote-secret "
        f"{endpoint.id}{org_option(endpoint)}"
    )
