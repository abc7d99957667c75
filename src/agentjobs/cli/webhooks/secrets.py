"""`agentjobs webhooks rotate-secret` and `promote-secret`: a new secret for an endpoint."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import answer, answer_json, remark, why_not_shown
from agentjobs.cli.webhooks.commands import (
    EndpointName,
    answer_changed,
    change,
    sealing_keys,
    tell_of_key,
    webhooks,
)
from agentjobs.cli.webhooks.text import document, flag

if TYPE_CHECKING:
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.problems import Problem
    from agentjobs.webhooks.endpoints import Endpoint


@webhooks.command("rotate-secret")
def rotate_secret(
    endpoint: EndpointName,
    overlap_hours: Annotated[
        int,
        typer.Option(
            "--overlap-hours",
            min=0,
            max=168,
            help="Hours in which both secrets sign; 0: the new one alone, at once.",
        ),
    ] = 24,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Make a new secret and print it, this once; the old one signs on for a while."""

    async def work(admin: Admin) -> "tuple[Endpoint, str, SealingKeys]":
        from agentjobs.webhooks import secret_rotation as secret_exchange

        keys = sealing_keys(admin)
        rotated = await secret_exchange.rotate_secret(admin.db, keys, org, endpoint, overlap_hours)
        return *rotated, keys

    rotated, secret, keys = with_store(data_dir, work)

    def show() -> None:
        tell_of_key(keys)
        if json:
            answer_json({"secret": secret, **document(rotated)})
            return
        remark(_about_new_secret(rotated))
        answer(secret)

    if reason := why_not_shown(show):
        raise _not_shown(rotated, overlap_hours, reason)


@webhooks.command("promote-secret")
def promote_secret(
    endpoint: EndpointName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """End the overlap now: the new secret signs alone."""
    from agentjobs.webhooks import secret_rotation as secret_exchange

    promoted = change(data_dir, secret_exchange.promote_secret, org, endpoint)
    answer_changed(promoted, "signs with its new secret alone.", json=json)


def _not_shown(endpoint: "Endpoint", overlap_hours: int, reason: str) -> "Problem":
    from agentjobs.clock import iso_utc
    from agentjobs.problems import Problem

    when = "already" if endpoint.promote_at is None else f"from {iso_utc(endpoint.promote_at)} on"
    return Problem(
        "secret_not_shown",
        f"The new secret could not be written: {reason}. Nobody knows it, and it signs alone "
        f"{when}. Make another: agentjobs webhooks rotate-secret {endpoint.id}{flag(endpoint)} "
        f"--overlap-hours {overlap_hours}",
    )


def _about_new_secret(endpoint: "Endpoint") -> str:
    from agentjobs.clock import iso_utc

    if endpoint.promote_at is None:
        return f"From now on the new secret of {endpoint.id} signs alone."
    return (
        f"Both secrets of {endpoint.id} sign until {iso_utc(endpoint.promote_at)}, then the new "
        f"one alone; sooner with: agentjobs webhooks promote-secret {endpoint.id}{flag(endpoint)}"
    )
