"""`agentjobs trackers`: where `ticket_id` is looked up. A token comes in, and never out."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentjobs.cli.admin import Admin, with_store
from agentjobs.cli.credential_input import read_token
from agentjobs.cli.options import DEFAULT_ORG, DataDir, Json, Org
from agentjobs.cli.output import answer, answer_json, answer_table, remark
from agentjobs.cli.trackers.text import TABLE, document, line
from agentjobs.cli.webhooks.commands import announce_new_key, sealing_keys

if TYPE_CHECKING:
    import aiohttp

    from agentjobs.forges.http.client import RetryBudget
    from agentjobs.organizations.sealing import SealingKeys
    from agentjobs.tickets.trackers import ConfiguredTracker

trackers = typer.Typer(no_args_is_help=True, help="Where tickets are looked up: issues and Jira.")
add = typer.Typer(no_args_is_help=True, help="Add a tracker.")
trackers.add_typer(add, name="add")

TrackerName = Annotated[
    str, typer.Argument(metavar="NAME", help="The tracker's name, or its identifier.")
]
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
        typer.Option("--account", metavar="EMAIL", help="Of a Jira Cloud API token."),
    ] = None,
    flavour: Annotated[
        str | None,
        typer.Option("--flavour", metavar="FLAVOUR", help="cloud or data-center, if not plain."),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Default: jira.")] = "",
    link_back: LinkBack = False,
    org: Org = DEFAULT_ORG,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Look up ABC-123 in Jira; the token is read from standard input, or asked for.

    Jira is asked whether it accepts the token.
    """
    if flavour not in (None, "cloud", "data-center"):
        raise typer.BadParameter("--flavour is cloud or data-center")

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

    tracker, known_as = _reaching_out(data_dir, work)
    _answer(tracker, f"{tracker.url} knows it as {known_as}.", json=json, known_as=known_as)


@trackers.command("list")
def list_trackers(org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False) -> None:
    """List the trackers of an organization, in the order in which they are asked."""

    async def work(admin: Admin) -> "list[ConfiguredTracker]":
        from agentjobs.tickets import trackers as stored

        return await stored.list_trackers(admin.db, org)

    found = with_store(data_dir, work)
    if json:
        answer_json({"trackers": [document(tracker) for tracker in found]})
        return
    answer_table(TABLE, [line(tracker) for tracker in found])


@trackers.command("check")
def check_tracker(
    name: TrackerName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Ask a tracker whether it accepts its token."""

    async def work(
        admin: Admin,
        keys: "SealingKeys",
        session: "aiohttp.ClientSession",
        retry_budget: "RetryBudget",
    ) -> "tuple[ConfiguredTracker, str | None]":
        from agentjobs.tickets import verify

        return await verify.check_tracker(admin.db, keys, session, org, name, retry_budget)

    tracker, known_as = _reaching_out(data_dir, work)
    told = (
        f"{tracker.url} knows it as {known_as}."
        if tracker.kind == "jira"
        else "It has no token: `agentjobs forges check` asks the platform of a repository."
    )
    _answer(tracker, told, json=json, known_as=known_as)


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
        raise typer.BadParameter("say what to change: --link-back or --no-link-back")

    async def work(admin: Admin) -> "ConfiguredTracker":
        from agentjobs.tickets.trackers import set_link_back

        return await set_link_back(admin.db, org, name, link_back)

    tracker = with_store(data_dir, work)
    told = "are linked" if tracker.link_back else "are not linked"
    _answer(tracker, f"Pull requests {told} on their tickets from now on.", json=json)


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

    tracker, known_as = _reaching_out(data_dir, work)
    _answer(tracker, "The new token is in use; revoke the old one.", json=json, known_as=known_as)


@trackers.command("remove")
def remove_tracker(
    name: TrackerName, org: Org = DEFAULT_ORG, data_dir: DataDir = None, json: Json = False
) -> None:
    """Remove a tracker with its token; tickets are not looked up there any more."""

    async def work(admin: Admin) -> "ConfiguredTracker":
        from agentjobs.tickets import trackers as stored

        return await stored.remove_tracker(admin.db, org, name)

    removed = with_store(data_dir, work)
    if json:
        answer_json({"name": removed.name, "removed": True})
        return
    answer(removed.name)
    remark(f"{removed.name} is removed.")


Asked = Callable[
    [Admin, "SealingKeys", "aiohttp.ClientSession", "RetryBudget"],
    Awaitable["tuple[ConfiguredTracker, str | None]"],
]


def _reaching_out(data_dir: Path | None, work: Asked) -> "tuple[ConfiguredTracker, str | None]":
    async def with_session(admin: Admin) -> "tuple[ConfiguredTracker, str | None]":
        from agentjobs.app.outbound_setup import session_of
        from agentjobs.cli.forges.access import persons_patience

        async with session_of(admin.settings) as session:
            return await work(admin, sealing_keys(admin), session, persons_patience())

    return with_store(data_dir, with_session)


def _answer(
    tracker: "ConfiguredTracker", told: str, *, json: bool, known_as: str | None = None
) -> None:
    if json:
        known = {} if known_as is None else {"known_as": known_as}
        answer_json({**document(tracker), **known})
        return
    answer(tracker.name)
    remark(told)
