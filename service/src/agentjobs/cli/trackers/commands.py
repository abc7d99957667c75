"""`agentjobs trackers`: where `ticket_id` is looked up. Tokens are never shown."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentjobs.cli.admin import Admin
from agentjobs.cli.credential_input import read_token
from agentjobs.cli.options import DEFAULT_ORG, Org
from agentjobs.cli.output import Answer, Table, to_document
from agentjobs.cli.store_command import Work, store_command
from agentjobs.cli.webhooks.commands import new_key_remarks, sealing_keys

if TYPE_CHECKING:
    import aiohttp

    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.platforms.http.client import RetryBudget
    from agentjobs.tickets.rows import ConfiguredTracker

trackers = typer.Typer(no_args_is_help=True, help="Manage ticket trackers (issues and Jira).")
add = typer.Typer(no_args_is_help=True, help="Add a tracker.")
trackers.add_typer(add, name="add")

_TABLE = ("name", "kind", "url", "account", "links back", "state", "checked")
_FIELDS = ("id", "name", "kind", "flavour", "url", "account", "link_back", "error")

TrackerName = Annotated[str, typer.Argument(metavar="NAME", help="The tracker's name or ID.")]
LinkBack = Annotated[
    bool,
    typer.Option("--link-back/--no-link-back", help="Link the pull request on the ticket."),
]


@add.command("issues")
@store_command
async def add_issues(admin: Admin, link_back: LinkBack = False, org: Org = DEFAULT_ORG) -> Answer:
    """Look up #12 and owner/name#12 among the issues of the repository's own platform."""
    from agentjobs.tickets.trackers import NewTracker, add_tracker

    new = NewTracker(kind="issues", link_back=link_back)
    tracker = await add_tracker(admin.db, sealing_keys(admin), org, new)
    return _answer(tracker, "Issues are looked up with the connection of each repository.")


@add.command("jira")
@store_command
def add_jira(
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Such as https://example.atlassian.net.")
    ],
    account: Annotated[
        str | None,
        typer.Option("--account", metavar="EMAIL", help="The account of a Jira Cloud API token."),
    ] = None,
    flavour: Annotated[
        str | None,
        typer.Option(
            "--flavour", metavar="FLAVOUR", help="cloud or data-center (default: from the URL)."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Default: jira.")] = "",
    link_back: LinkBack = False,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Look up ABC-123 in Jira; the token is read from standard input or a prompt.

    Jira must accept the token.
    """
    if flavour not in (None, "cloud", "data-center"):
        raise typer.BadParameter("--flavour must be cloud or data-center")

    async def work(admin: Admin) -> Answer:
        from agentjobs.tickets.trackers import NewTracker
        from agentjobs.tickets.verify import verify_and_add

        async with _open_session(admin) as (keys, session, retry_budget):
            new = NewTracker(
                kind="jira",
                name=name,
                url=url,
                account=account,
                token=read_token("Token of Jira"),
                flavour=flavour,  # type: ignore[arg-type] # checked above
                link_back=link_back,
            )
            tracker, known_as = await verify_and_add(
                admin.db, keys, session, org, new, retry_budget
            )
        answer = _answer(tracker, f"The account on {tracker.url} is {known_as}.", known_as)
        return answer._replace(remarks=new_key_remarks(keys))

    return work


@trackers.command("list")
@store_command
async def list_trackers(admin: Admin, org: Org = DEFAULT_ORG) -> Table:
    """List the trackers of an organization in the order in which they are searched."""
    from agentjobs.tickets import trackers as stored

    configured = await stored.list_trackers(admin.db, org)
    documents = [_document(tracker) for tracker in configured]
    return Table({"trackers": documents}, _TABLE, [_line(tracker) for tracker in configured])


@trackers.command("check")
@store_command
async def check_tracker(admin: Admin, name: TrackerName, org: Org = DEFAULT_ORG) -> Answer:
    """Check that a tracker accepts its token."""
    from agentjobs.tickets import verify

    async with _open_session(admin) as (keys, session, retry_budget):
        tracker, known_as = await verify.check_tracker(
            admin.db, keys, session, org, name, retry_budget
        )
    message = (
        f"The account on {tracker.url} is {known_as}."
        if tracker.kind == "jira"
        else "It has no token; check the connection with `agentjobs platforms check`."
    )
    return _answer(tracker, message, known_as)


@trackers.command("edit")
@store_command
def edit_tracker(
    name: TrackerName,
    link_back: Annotated[
        bool | None,
        typer.Option("--link-back/--no-link-back", help="Link the pull request on the ticket."),
    ] = None,
    org: Org = DEFAULT_ORG,
) -> Work:
    """Change whether pull requests are linked on their tickets."""
    if link_back is None:
        raise typer.BadParameter("use --link-back or --no-link-back")

    async def work(admin: Admin) -> Answer:
        from agentjobs.tickets.trackers import set_link_back

        tracker = await set_link_back(admin.db, org, name, link_back)
        verb = "are linked" if tracker.link_back else "are not linked"
        return _answer(tracker, f"Pull requests {verb} on their tickets from now on.")

    return work


@trackers.command("rotate-token")
@store_command
async def rotate_token(admin: Admin, name: TrackerName, org: Org = DEFAULT_ORG) -> Answer:
    """Replace a token; the old one stays if the new one is not accepted."""
    from agentjobs.tickets.verify import verify_and_replace

    async with _open_session(admin) as (keys, session, retry_budget):
        token = read_token(f"New token of {name}")
        tracker, known_as = await verify_and_replace(
            admin.db, keys, session, org, name, token, retry_budget
        )
    return _answer(tracker, "The new token is in use; revoke the old one.", known_as)


@trackers.command("remove")
@store_command
async def remove_tracker(admin: Admin, name: TrackerName, org: Org = DEFAULT_ORG) -> Answer:
    """Remove a tracker and its token; tickets are no longer looked up there."""
    from agentjobs.tickets import trackers as stored

    removed = await stored.remove_tracker(admin.db, org, name)
    document = {"name": removed.name, "removed": True}
    return Answer(document, [removed.name], [f"{removed.name} is removed."])


@asynccontextmanager
async def _open_session(
    admin: Admin,
) -> "AsyncIterator[tuple[SealingKeys, aiohttp.ClientSession, RetryBudget]]":
    from agentjobs.app.outbound_setup import open_session
    from agentjobs.cli.platforms.access import interactive_retries

    async with open_session(admin.settings) as session:
        yield sealing_keys(admin), session, interactive_retries()


def _answer(tracker: "ConfiguredTracker", note: str, known_as: str | None = None) -> Answer:
    known = {} if known_as is None else {"known_as": known_as}
    return Answer({**_document(tracker), **known}, [tracker.name], [note])


def _document(tracker: "ConfiguredTracker") -> dict[str, Any]:
    return to_document(tracker, _FIELDS, ("checked_at", "created_at"))


def _line(tracker: "ConfiguredTracker") -> list[Any]:
    checked = _document(tracker)["checked_at"]
    state = tracker.error or ("accepted" if checked else "not checked")
    if tracker.kind == "issues":
        state = "uses the connection of each repository"
    return [
        *(tracker.name, tracker.flavour or tracker.kind, tracker.url, tracker.account),
        *(tracker.link_back, state, checked),
    ]
