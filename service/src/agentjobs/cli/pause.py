"""`agentjobs pause` and `resume`: whether workers claim jobs, of all organizations or of one."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.output import Answer
from agentjobs.cli.store_command import store_command

if TYPE_CHECKING:
    from agentjobs.organizations.pauses import Pauses

OptionalOrg = Annotated[
    str | None,
    typer.Option("--org", metavar="NAME", help="Only this organization (default: all)."),
]


@store_command
async def pause(admin: Admin, org: OptionalOrg = None) -> Answer:
    """Start no more jobs; running jobs continue and everything else works."""
    from agentjobs.organizations.pauses import pause

    changed = await pause(admin.db, org)
    until = f"No new jobs start until `agentjobs resume{f' --org {org}' if org else ''}`."
    return _answer(
        org, until if changed else "It was paused already.", paused=True, changed=changed
    )


@store_command
async def resume(admin: Admin, org: OptionalOrg = None) -> Answer:
    """Start jobs again after `pause`."""
    from agentjobs.organizations.pauses import load_pauses, resume

    changed = await resume(admin.db, org)
    note = "Waiting jobs start again." if changed else "It was not paused."
    note = _with_other_pauses(note, org, await load_pauses(admin.db))
    return _answer(org, note, paused=False, changed=changed)


def _with_other_pauses(note: str, org: str | None, pauses: "Pauses") -> str:
    """Jobs start only if neither the service nor their organization is paused."""
    if org and pauses.service_since is not None:
        return "The whole service is still paused: run `agentjobs resume`, too."
    if org is None and pauses.organizations:
        return f"{note} Still paused by `--org`: {', '.join(pauses.organizations)}."
    return note


def _answer(org: str | None, note: str, *, paused: bool, changed: bool) -> Answer:
    document = {"org": org, "paused": paused, "changed": changed}
    return Answer(document, [org or "all organizations"], [note])
