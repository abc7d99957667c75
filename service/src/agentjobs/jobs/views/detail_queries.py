"""What a job's page shows beyond the API's view: request, commits, follow-ups."""

from typing import Any

import msgspec

from agentjobs.jobs.lookup import job_not_found
from agentjobs.jobs.queue.context import JobsContext
from agentjobs.store.database import Row, to_struct

_DETAILS = (
    "SELECT d.job_id IS NOT NULL AS has_diff, d.additions, d.deletions, d.files, d.is_truncated,"
    " p.title AS pull_title, p.body AS pull_body, p.draft AS is_draft,"
    " j.prompt, j.config_override, j.branch, j.base_commit, j.head_commit, j.repo_id,"
    " r.platform, r.default_branch, r.full_name, r.disconnected_at,"
    " j.created_by, j.created_by_name, j.follows,"
    " j.cancel_requested_at, j.created_at, j.queued_at, j.started_at, j.completed_at,"
    " (SELECT /*sqlite GROUP_CONCAT(f.id, ' ') *//*postgresql STRING_AGG(f.id, ' ') */"
    "  FROM jobs f WHERE f.follows = j.id AND f.organization_id || '' = j.organization_id)"
    " AS followed_by"
    " FROM jobs j JOIN repos r ON r.id = j.repo_id LEFT JOIN job_diffs d ON d.job_id = j.id"
    " LEFT JOIN pulls p ON p.repo_id = j.repo_id AND p.number = j.pr_number"
    " WHERE j.id = :job_id AND j.organization_id = :organization_id"
)


class DiffSize(msgspec.Struct, frozen=True):
    """Sizes of the stored part. `files` is None if an earlier version stored it."""

    additions: int
    deletions: int
    files: int | None
    is_truncated: bool


class PullSummary(msgspec.Struct, frozen=True):
    """The text of a pull request, as last read from its platform."""

    title: str
    body: str
    is_draft: bool


class JobDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in milliseconds. `prompt` is None until the agent has started.

    `base_branch` is the requested branch, or the repository's current default branch.
    """

    prompt: str | None
    config_override: dict[str, Any]
    branch: str
    base_branch: str | None
    base_commit: str | None
    head_commit: str | None
    # Whether the store has the diff of its change.
    has_diff: bool
    diff_size: DiffSize | None
    pull: PullSummary | None
    repo_id: str
    platform: str
    # The repository's current name; None once it is disconnected.
    current_repo: str | None
    created_by: str | None
    created_by_name: str | None
    follows: str | None
    # Oldest first.
    followed_by: tuple[str, ...]
    cancel_requested_at: int | None
    created_at: int
    queued_at: int
    started_at: int | None
    completed_at: int | None


async def load_details(context: JobsContext, organization_id: str, job_id: str) -> JobDetails:
    row = await context.db.fetch_one(_DETAILS, job_id=job_id, organization_id=organization_id)
    if row is None:
        raise job_not_found(job_id)
    override = msgspec.json.decode(row["config_override"], type=dict[str, Any])
    return to_struct(
        row,
        JobDetails,
        config_override=override,
        base_branch=override.get("base_branch") or row["default_branch"] or None,
        has_diff=bool(row["has_diff"]),
        diff_size=_diff_size(row),
        pull=_pull(row),
        current_repo=None if row["disconnected_at"] is not None else row["full_name"],
        followed_by=tuple(sorted((row["followed_by"] or "").split())),
    )


def _diff_size(row: Row) -> DiffSize | None:
    if row["additions"] is None:
        return None
    return DiffSize(row["additions"], row["deletions"], row["files"], bool(row["is_truncated"]))


def _pull(row: Row) -> PullSummary | None:
    if row["pull_title"] is None:
        return None
    return PullSummary(row["pull_title"], row["pull_body"], bool(row["is_draft"]))
