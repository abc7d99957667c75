"""`agentjobs pause` and `resume`: whether workers claim jobs, of all organizations or of one."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_note, print_result

if TYPE_CHECKING:
    from agentjobs.organizations.pauses import Pauses

OptionalOrg = Annotated[
    str | None,
    typer.Option("--org", metavar="NAME", help="Only this organization (default: all)."),
]


def pause(org: OptionalOrg = None, data_dir: DataDir = None, json: Json = False) -> None:
    """Start no more jobs; running jobs continue and everything else works."""

    async def work(admin: Admin) -> bool:
        from agentjobs.organizations.pauses import pause

        return await pause(admin.db, org)

    changed = with_store(data_dir, work)
    until = f"No new jobs start until `agentjobs resume{f' --org {org}' if org else ''}`."
    note = until if changed else "It was paused already."
    _answer(org, note, json=json, paused=True, changed=changed)


def resume(org: OptionalOrg = None, data_dir: DataDir = None, json: Json = False) -> None:
    """Start jobs again after `pause`."""

    async def work(admin: Admin) -> "tuple[bool, Pauses]":
        from agentjobs.organizations.pauses import load_pauses, resume

        return await resume(admin.db, org), await load_pauses(admin.db)

    changed, pauses = with_store(data_dir, work)
    note = "Waiting jobs start again." if changed else "It was not paused."
    _answer(org, _with_other_pauses(note, org, pauses), json=json, paused=False, changed=changed)


def _with_other_pauses(note: str, org: str | None, pauses: "Pauses") -> str:
    """Jobs start only if neither the service nor their organization is paused."""
    if org and pauses.service_since is not None:
        return "The whole service is still paused: run `agentjobs resume`, too."
    if org is None and pauses.organizations:
        return f"{note} Still paused by `--org`: {', '.join(pauses.organizations)}."
    return note


def _answer(org: str | None, note: str, *, json: bool, paused: bool, changed: bool) -> None:
    if json:
        print_json({"org": org, "paused": paused, "changed": changed})
        return
    print_result(org or "all organizations")
    print_note(note)
