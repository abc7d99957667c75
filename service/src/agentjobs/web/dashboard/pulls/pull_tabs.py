"""What the tabs of a pull request share: its lookup by the address, and their head."""

import re
from typing import Any

from agentjobs.pulls.comments import count_comments
from agentjobs.pulls.pulls import Pull, get_pull
from agentjobs.web.dashboard.page_route import REPO
from agentjobs.web.dashboard.pulls.comparison_cache import Comparison, load_comparison
from agentjobs.web.dashboard.pulls.merge_box import load_merge_box
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs_runtime.problems import Problem

PATH = f"/{{org}}/{REPO}/pulls/{{number}}"


async def find_pull(request: PageRequest) -> Pull:
    full_name = request.path_param("full_name")
    number = request.path_param("number")
    # 0, which no pull request has, for anything that is not a sensible number.
    parsed = int(number) if re.fullmatch("[0-9]{1,15}", number) else 0
    try:
        return await get_pull(request.db, request.organization, full_name, parsed)
    except Problem:
        raise Problem(
            "pull_not_found",
            "There is no such pull request in your organization. See Pull requests.",
        ) from None


async def find_local_pull(request: PageRequest) -> Pull:
    pull = await find_pull(request)
    if pull.url is not None:
        raise Problem("not_found", "View the changes on the platform of this pull request.")
    return pull


async def tab_values(request: PageRequest, pull: Pull, tab: str) -> dict[str, Any]:
    """The values of `pulls/tabs.html`, which every tab extends."""
    comparison: Comparison = await load_comparison(request, pull)
    return {
        "tab": tab,
        "pull": pull,
        "comparison": comparison,
        "view": comparison.view,
        "comment_count": await count_comments(request.db, pull),
        "merge_box": await load_merge_box(request, pull, comparison.ends),
    }
