"""Pull requests as rows, looked up within their organization.

Those of the platform `local` can be closed and marked ready here.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from agentjobs.organizations import audit
from agentjobs.store.database import Database, Row, Transaction, to_struct
from agentjobs.store.like_pattern import contains_pattern
from agentjobs_runtime.problems import Problem

_FROM = (
    "FROM pulls p JOIN repos r ON r.id = p.repo_id JOIN organizations o ON o.id = r.organization_id"
    " WHERE o.name = :organization AND r.disconnected_at IS NULL"
)
_SELECT = (
    "SELECT p.*, r.full_name AS repo, r.default_branch, r.organization_id, o.name AS organization,"
    # The first job, which is not a follow-up.
    " (SELECT MIN(j.id) FROM jobs j WHERE j.repo_id = p.repo_id AND j.pr_number = p.number)"
    f" AS job_id {_FROM}"
)
_NEWEST_FIRST = "ORDER BY p.created_at DESC, r.full_name, p.number DESC"
# The page is chosen from an index alone, because texts may be long.
_PAGE = (
    f"{_SELECT} AND (p.repo_id, p.number) IN (SELECT p.repo_id, p.number {_FROM}"
    "  AND (CAST(:full_name AS TEXT) IS NULL OR r.full_name = :full_name)"
    "  AND (CAST(:state AS TEXT) IS NULL OR p.state = :state)"
    "  AND (CAST(:pattern AS TEXT) IS NULL OR LOWER(p.title) LIKE :pattern ESCAPE '!'"
    "   OR CAST(p.number AS TEXT) = :search)"
    "  AND (p.created_at < :created_at OR p.created_at = :created_at AND"
    "   (r.full_name > :name OR r.full_name = :name AND p.number < :number))"
    f"  {_NEWEST_FIRST} LIMIT :limit) {_NEWEST_FIRST}"
)
_MAX_NUMBER = 2**53
PREFIX = "pull"
_REPO = "repo_"
ID_PATTERN = f"^{PREFIX}_[0-9a-z]{{26}}_[1-9][0-9]{{0,14}}$"
_is_pull_id = re.compile(ID_PATTERN).fullmatch

# Creation time, repository, number.
PullCursor = tuple[int, str, int]
NEWEST_PULL: PullCursor = (_MAX_NUMBER, "", 0)

InSameTransaction = Callable[[Transaction, "Pull"], Awaitable[None]]


class Pull(msgspec.Struct, frozen=True):
    organization: str
    organization_id: str
    repo_id: str
    repo: str
    default_branch: str
    number: int
    title: str
    body: str
    state: str
    draft: bool
    head_branch: str
    base_branch: str
    head_commit: str
    base_commit: str
    merge_commit: str | None
    created_at: int
    merged_at: int | None
    closed_at: int | None
    # The actor who merged or closed it, as in the audit log.
    ended_by: str | None
    # Its page on its platform; None for `local`.
    url: str | None = None
    # The job that opened it.
    job_id: str | None = None

    @property
    def id(self) -> str:
        return f"{PREFIX}_{self.repo_id.removeprefix(_REPO)}_{self.number}"

    @property
    def key(self) -> dict[str, Any]:
        """The columns that identify its row."""
        return {"repo_id": self.repo_id, "number": self.number}

    @property
    def path(self) -> str:
        """The path of its page, below the service's public URL."""
        return pull_path(self.organization, self.repo, self.number)

    @property
    def cursor(self) -> PullCursor:
        """The position in the list, for the page that starts after it."""
        return self.created_at, self.repo, self.number

    @property
    def short_name(self) -> str:
        return f"{self.repo}#{self.number}"


def pull_path(organization: str, full_name: str, number: int) -> str:
    return f"/{organization}/{full_name}/pulls/{number}"


async def list_pulls(
    db: Database,
    organization: str,
    full_name: str | None = None,
    *,
    state: str | None = None,
    search: str = "",
    limit: int | None = None,
    before: PullCursor | None = None,
) -> list[Pull]:
    """Newest first, of one repository or all; `before` is the cursor of the last one shown.

    `search` is a part of the title, or the number.
    """
    if full_name is not None:
        await _check_connected(db, organization, full_name)
    created_at, name, number = before or NEWEST_PULL
    rows = await db.fetch_all(
        _PAGE,
        organization=organization,
        full_name=full_name,
        state=state,
        pattern=contains_pattern(search.lower()) if search else None,
        search=search.removeprefix("#"),
        created_at=created_at,
        name=name,
        number=number,
        limit=_MAX_NUMBER if limit is None else limit,
    )
    return [_pull(row) for row in rows]


async def get_pull(
    db: Database | Transaction, organization: str, full_name: str, number: int
) -> Pull:
    row = None
    if 0 < number < _MAX_NUMBER:
        row = await db.fetch_one(
            f"{_SELECT} AND r.full_name = :full_name AND p.number = :number",
            organization=organization,
            full_name=full_name,
            number=number,
        )
    if row is None:
        raise Problem(
            "pull_not_found",
            f"There is no pull request {number} in {full_name!r}; "
            "list them with `agentjobs pulls list`.",
        )
    return _pull(row)


async def get_pull_by_id(db: Database, organization: str, pull_id: str) -> Pull:
    pull = None
    if _is_pull_id(pull_id):
        _, body, number = pull_id.split("_")
        pull = await _find(db, organization, _REPO + body, int(number))
    if pull is None:
        raise Problem(
            "pull_not_found",
            f"There is no pull request {pull_id!r} in this organization; GET /pulls lists them.",
        )
    return pull


async def pull_of_job(db: Database, organization: str, job_id: str) -> Pull | None:
    """The pull request that a job opened or continued."""
    job = await db.fetch_one(
        "SELECT repo_id, pr_number FROM jobs WHERE id = :id AND pr_number IS NOT NULL", id=job_id
    )
    return None if job is None else await _find(db, organization, job["repo_id"], job["pr_number"])


async def _find(db: Database, organization: str, repo_id: str, number: int) -> Pull | None:
    row = await db.fetch_one(
        f"{_SELECT} AND p.repo_id = :repo_id AND p.number = :number",
        organization=organization,
        repo_id=repo_id,
        number=number,
    )
    return None if row is None else _pull(row)


class PullElsewhere(Problem):
    """A platform hosts the pull request; `platform_sync.pull_changes` can change it."""

    def __init__(self, pull: Pull) -> None:
        super().__init__(
            "pull_elsewhere",
            f"Pull request {pull.number} is hosted on its platform and can only be changed there: "
            f"{pull.url}",
        )


def check_local(pull: Pull) -> None:
    if pull.url is not None:
        raise PullElsewhere(pull)


def check_open(pull: Pull) -> None:
    """Raises Problem unless it is open and can be changed here."""
    check_local(pull)
    if pull.state != "open":
        raise Problem("pull_not_open", f"Pull request {pull.number} is already {pull.state}.")


@audit.in_transaction
async def close_pull(tx: Transaction, organization: str, full_name: str, number: int) -> Pull:
    """Close it without merging."""
    pull = await get_pull(tx, organization, full_name, number)
    check_open(pull)
    changed = await tx.execute(
        "UPDATE pulls SET state = 'closed', closed_at = :now, ended_by = :ended_by"
        " WHERE repo_id = :repo_id AND number = :number AND state = 'open'",
        **pull.key,
        now=await tx.clock_ms(),
        ended_by=audit.current_actor().name,
    )
    if not changed:
        raise Problem("pull_not_open", "It has just been merged or closed by someone else.")
    await audit.record(tx, pull.organization_id, "pull.closed", pull.short_name)
    return await get_pull(tx, organization, full_name, number)


@audit.in_transaction
async def ready_pull(
    tx: Transaction,
    organization: str,
    full_name: str,
    number: int,
    *,
    also: InSameTransaction | None = None,
) -> Pull:
    """Mark a draft as ready; `also` runs in the same transaction if it was a draft."""
    pull = await get_pull(tx, organization, full_name, number)
    check_open(pull)
    changed = await tx.execute(
        "UPDATE pulls SET draft = FALSE"
        " WHERE repo_id = :repo_id AND number = :number AND state = 'open' AND draft",
        **pull.key,
    )
    if changed:
        await audit.record(tx, pull.organization_id, "pull.ready", pull.short_name)
    if changed and also is not None:
        await also(tx, pull)
    return await get_pull(tx, organization, full_name, number)


async def _check_connected(db: Database, organization: str, full_name: str) -> None:
    row = await db.fetch_one(
        "SELECT r.id FROM repos r JOIN organizations o ON o.id = r.organization_id"
        " WHERE o.name = :organization AND r.full_name = :full_name"
        " AND r.disconnected_at IS NULL",
        organization=organization,
        full_name=full_name,
    )
    if row is None:
        raise Problem(
            "repo_not_found",
            f"There is no repository {full_name!r} in this organization; "
            "list them with `agentjobs repos list`.",
        )


def _pull(row: Row) -> Pull:
    return to_struct(row, Pull, draft=bool(row["draft"]))
