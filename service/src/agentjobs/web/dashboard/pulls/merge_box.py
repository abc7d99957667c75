"""What decides whether a pull request is merged: conflicts, checks, a job at work, the method."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from agentjobs.jobs.operations.follow_up import active_job_on
from agentjobs.jobs.views.listing import latest_check
from agentjobs.local_git.merge_check import find_conflicts
from agentjobs.local_git.repositories import present_path
from agentjobs.platforms.protocol import MergeMethod
from agentjobs.pulls.comparison import Tips
from agentjobs.pulls.pulls import Pull
from agentjobs.web.dashboard.cookies import CHOICE_SECONDS, MERGE_METHOD, read_cookie, set_cookie
from agentjobs.web.dashboard.request_context import PageRequest
from agentjobs.web.dashboard.text.diff_view import CommitRange
from agentjobs_runtime.protocol.verification import Verification

_METHODS: dict[MergeMethod, str] = {
    "merge": "Create a merge commit",
    "squash": "Squash into one commit",
    "rebase": "Rebase its commits",
}
_MAX_NAMED = 5


class MergeBox(msgspec.Struct, frozen=True, kw_only=True):
    """`conflicts` is None if nobody knows; `check` is that of an earlier commit if not current."""

    head: str
    conflicts: tuple[str, ...] | None
    check: Verification | None
    is_current: bool
    active_job: str | None
    methods: Sequence[tuple[str, str]]
    method: MergeMethod

    @property
    def named_conflicts(self) -> Sequence[str]:
        return (self.conflicts or ())[:_MAX_NAMED]


async def load_merge_box(request: PageRequest, pull: Pull, ends: CommitRange) -> MergeBox | None:
    """None if it is no longer open."""
    if pull.state != "open":
        return None
    tips = Tips(ends.base, ends.head)
    git_dir = present_path(request.settings.repositories_path, pull.repo_id)
    checked = await latest_check(request.db, pull.repo_id, pull.number)
    return MergeBox(
        head=tips.head,
        conflicts=await find_conflicts(git_dir, tips.base, tips.head),
        check=checked and checked[1],
        is_current=checked is not None and checked[0] == tips.head,
        active_job=await active_job_on(
            request.db, request.organization_id, pull.repo_id, pull.head_branch
        ),
        methods=list(_METHODS.items()),
        method=method_named(read_cookie(request.http, request.settings, MERGE_METHOD)),
    )


def method_named(name: str) -> MergeMethod:
    return next((method for method in _METHODS if method == name), "merge")


def remember_method(request: PageRequest, response: Response, method: MergeMethod) -> None:
    set_cookie(response, request.settings, MERGE_METHOD, method, CHOICE_SECONDS)
