"""`agentjobs trackers`: where `ticket_id` is looked up. Tokens are never shown."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.credential_input import read_token
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import print_json, print_note, print_result, print_table
from agentjobs.cli.trackers.text import TABLE, document, line
from agentjobs.cli.webhooks.commands import announce_new_key, sealing_keys

if TYPE_CHECKING:
    import aiohttp

    from agentjobs.forges.http.client import RetryBudget
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.tickets.rows import ConfiguredTracker

trackers = typer.Typer(no_args_is_help=True, help="Manage ticket trackers (issues and Jira).")
add = typer.Typer(no_args_is_help=True, help="Add a tracker.")
trackers.add_typer(add, name="add")

TrackerName = Annotated[str, typer.Argument(metavar="NAME", help="The tracker's name or ID.")]
LinkBack = Annotated[
    bool,
    typer.Option("--link-back/--no-link-back", help="Link the pull request on the ticket."),
]


@add.command("issues")
def add_issues(
    link_back: LinkBack = False,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Look up #12 and owner/name#12 among the issues of the repository's own platform."""

    async def work(admin: Admin) -> "ConfiguredTracker":
        from agentjobs.tickets.trackers import NewTracker, add_tracker

        new = NewTracker(kind="issues", link_back=link_back)
        return await add_tracker(admin.db, sealing_keys(admin), org, new)

    tracker = with_store(data_dir, work)
    _answer(tracker, "Issues are looked up with the connection of each repository.", json=json)


@add.command("jira")
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
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Look up ABC-123 in Jira; the token is read from standard input or a prompt.

    Jira must accept the token.
    """
    if flavour not in (None, "cloud", "data-center"):
        raise typer.BadParameter("--flavour must be cloud or data-center")

    async def work(
        admin: Admin,
        keys: "SealingKeys",
        session: "aiohttp.ClientSession",
        retry_budget: "RetryBudget",
    ) -> "tuple[ConfiguredTracker, str | None]":
        from agentjobs.tickets.trackers import NewTracker
        from agentjobs.tickets.verify import verify_and_add

        new = NewTracker(
            kind="jira",
            name=name,
            url=url,
            account=account,
            token=read_token("Token of Jira"),
            flavour=flavour,  # type: ignore[arg-type] # checked above
            link_back=link_back,
        )
        added = await verify_and_add(admin.db, keys, session, org, new, retry_budget)
        announce_new_key(keys)
        return added

    tracker, known_as = _with_session(data_dir, work)
    _answer(tracker, f"The account on {tracker.url} is {known_as}.", json=json, known_as=known_as)


@trackers.command("list")
def list_trackers(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """List the trackers of an organization in the order in which they are searched."""

    async def work(admin: Admin) -> "list[ConfiguredTracker]":
        from agentjobs.tickets import trackers as stored

        return await stored.list_trackers(admin.db, org)

    configured = with_store(data_dir, work)
    if json:
        print_json({"trackers": [document(tracker) for tracker in configured]})
        return
    print_table(TABLE, [line(tracker) for tracker in configured])


@trackers.command("check")
def check_tracker(
    name: TrackerName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Check that a tracker accepts its token."""

    async def work(
        admin: Admin,
        keys: "SealingKeys",
        session: "aiohttp.ClientSession",
        retry_budget: "RetryBudget",
    ) -> "tuple[ConfiguredTracker, str | None]":
        from agentjobs.tickets import verify

        return await verify.check_tracker(admin.db, keys, session, org, name, retry_budget)

    tracker, known_as = _with_session(data_dir, work)
    message = (
        f"The account on {tracker.url} is {known_as}."
        if tracker.kind == "jira"
        else "It has no token; check the connection with `agentjobs forges check`."
    )
    _answer(tracker, message, json=json, known_as=known_as)


@trackers.command("edit")
def edit_tracker(
    name: TrackerName,
    link_back: Annotated[
        bool | None,
        typer.Option("--link-back/--no-link-back", help="Link the pull request on the ticket."),
    ] = None,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Change whether pull requests are linked on their tickets."""
    if link_back is None:
        raise typer.BadParameter("use --link-back or --no-link-back")

    async def work(admin: Admin) -> "ConfiguredTracker":
        from agentjobs.tickets.trackers import set_link_back

        return await set_link_back(admin.db, org, name, link_back)

    tracker = with_store(data_dir, work)
    verb = "are linked" if tracker.link_back else "are not linked"
    _answer(tracker, f"Pull requests {verb} on their tickets from now on.", json=json)


@trackers.command("rotate-token")
def rotate_token(
    name: TrackerName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Replace a token; the old one stays if the new one is not accepted."""

    async def work(
        admin: Admin,
        keys: "SealingKeys",
        session: "aiohttp.ClientSession",
        retry_budget: "RetryBudget",
    ) -> "tuple[ConfiguredTracker, str | None]":
        from agentjobs.tickets.verify import verify_and_replace

        token = read_token(f"New token of {name}")
        return await verify_and_replace(admin.db, keys, session, org, name, token, retry_budget)

    tracker, known_as = _with_session(data_dir, work)
    _answer(tracker, "The new token is in use; revoke the old one.", json=json, known_as=known_as)


@trackers.command("remove")
def remove_tracker(
    name: TrackerName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Remove a tracker and its token; tickets are no longer looked up there."""

    async def work(admin: Admin) -> "ConfiguredTracker":
        from agentjobs.tickets import trackers as stored

        return await stored.remove_tracker(admin.db, org, name)

    removed = with_store(data_dir, work)
    if json:
        print_json({"name": removed.name, "removed": True})
        return
    print_result(removed.name)
    print_note(f"{removed.name} is removed.")


WithSession = Callable[
    [Admin, "SealingKeys", "aiohttp.ClientSession", "RetryBudget"],
    Awaitable["tuple[ConfiguredTracker, str | None]"],
]


def _with_session(
    data_dir: Path | None, work: WithSession
) -> "tuple[ConfiguredTracker, str | None]":
    async def run(admin: Admin) -> "tuple[ConfiguredTracker, str | None]":
        from agentjobs.app.outbound_setup import session_of
        from agentjobs.cli.forges.access import interactive_retries

        async with session_of(admin.settings) as session:
            return await work(admin, sealing_keys(admin), session, interactive_retries())

    return with_store(data_dir, run)


def _answer(
    tracker: "ConfiguredTracker", message: str, *, json: bool, known_as: str | None = None
) -> None:
    if json:
        known = {} if known_as is None else {"known_as": known_as}
        print_json({**document(tracker), **known})
        return
    print_result(tracker.name)
    print_note(message)
