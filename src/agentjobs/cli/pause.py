"""`agentjobs pause` and `resume`: whether workers claim jobs, of all organizations or of one."""

from typing import Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.options import DataDir, Json
from agentjobs.cli.output import print_json, print_note, print_result

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
    note = "No new jobs start until `agentjobs resume`." if changed else "It was paused already."
    _answer(org, note, json=json, paused=True, changed=changed)


def resume(org: OptionalOrg = None, data_dir: DataDir = None, json: Json = False) -> None:
    """Start jobs again after `pause`."""

    async def work(admin: Admin) -> bool:
        from agentjobs.organizations.pauses import resume

        return await resume(admin.db, org)

    changed = with_store(data_dir, work)
    note = "Waiting jobs start again." if changed else "It was not paused."
    _answer(org, note, json=json, paused=False, changed=changed)


def _answer(org: str | None, note: str, *, json: bool, paused: bool, changed: bool) -> None:
    if json:
        print_json({"org": org, "paused": paused, "changed": changed})
        return
    print_result(org or "all organizations")
    print_note(note)
