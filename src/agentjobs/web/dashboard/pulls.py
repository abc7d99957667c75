"""Pages of pull requests on the platform `local`: the list, and one with commits and diff."""

import logging
import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from agentjobs.forges.proposal import Proposal, proposal_of
from agentjobs.forges.pulls import Pull, get_pull, list_pulls
from agentjobs.problems import Problem
from agentjobs.web.basic_auth import caller_of
from agentjobs.web.context import WebContext
from agentjobs.web.dashboard.notices import notices_for
from agentjobs.web.dashboard.pages import page

_MOST_LISTED = 300
_log = logging.getLogger(__name__)
_STATIC = Path(__file__).with_name("static")


async def show_list(request: Request) -> Response:
    context: WebContext = request.app.state.context
    organization, full_name = await _place(request)
    pulls = await list_pulls(context.db, organization, full_name, limit=_MOST_LISTED + 1)
    return await page(
        context.settings,
        "pulls.html",
        notices=await notices_for(context.db, organization),
        organization=organization,
        repo=full_name,
        pulls=pulls[:_MOST_LISTED],
        has_more=len(pulls) > _MOST_LISTED,
    )


async def show_pull(request: Request) -> Response:
    context: WebContext = request.app.state.context
    organization, full_name = await _place(request)
    pull = await get_pull(context.db, organization, full_name, _number(request))
    proposal = await _proposal(context, pull)
    notices = await notices_for(context.db, organization)
    return await page(context.settings, "pull.html", notices=notices, pull=pull, proposal=proposal)


async def _proposal(context: WebContext, pull: Pull) -> Proposal:
    try:
        return await proposal_of(context.settings.data_path, pull)
    except Problem as problem:
        # Its words are for the operator: they name places on this host.
        _log.warning("pull request %s cannot be shown: %s", pull.path, problem.message)
        raise Problem(
            "repo_unavailable",
            "The files of this repository cannot be read at the moment; tell the operator.",
        ) from None


async def _place(request: Request) -> tuple[str, str]:
    """The repository the address names, for a caller of its organization."""
    caller = await caller_of(request)
    place = request.path_params
    full_name = f"{place['owner']}/{place['name']}"
    if caller.organization != place["org"]:
        raise Problem("not_found", "There is no such page in this key's organization.")
    return caller.organization, full_name


def _number(request: Request) -> int:
    """0, which no pull request has, for what is not a number or absurdly large."""
    text: str = request.path_params["number"]
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else 0


_PULLS = "/{org}/{owner}/{name}/pulls"

routes: list[BaseRoute] = [
    Mount("/static", StaticFiles(directory=_STATIC, check_dir=False), name="static"),
    Route(_PULLS, show_list, methods=["GET"]),
    Route(f"{_PULLS}/{{number}}", show_pull, methods=["GET"]),
]
