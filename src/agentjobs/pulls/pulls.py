"""Pull requests as rows, found through the organization that owns them.

Those of the platform `local` are changed here; those of a platform elsewhere only there.
"""

from collections.abc import Awaitable, Callable

import msgspec

from agentjobs.clock import now_ms
from agentjobs.organizations import audit
from agentjobs.problems import Problem
from agentjobs.store.database import Database, Row, Transaction

_FROM = (
    "FROM pulls p JOIN repos r ON r.id = p.repo_id JOIN organizations o ON o.id = r.organization_id"
    " WHERE o.name = :organization AND r.disconnected_at IS NULL"
)
_SELECT = (
    f"SELECT p.*, r.full_name, r.default_branch, r.organization_id, o.name AS organization {_FROM}"
)
_NEWEST_FIRST = "ORDER BY p.created_at DESC, r.full_name, p.number DESC"
# Which ones first, from an index alone: their texts may be long.
_PAGE = (
    f"{_SELECT} AND (p.repo_id, p.number) IN (SELECT p.repo_id, p.number {_FROM}"
    "  AND (CAST(:full_name AS TEXT) IS NULL OR r.full_name = :full_name)"
    "  AND (CAST(:state AS TEXT) IS NULL OR p.state = :state)"
    "  AND (p.created_at < :created_at OR p.created_at = :created_at AND"
    "   (r.full_name > :name OR r.full_name = :name AND p.number < :number))"
    f"  {_NEWEST_FIRST} LIMIT :limit) {_NEWEST_FIRST}"
)
_LARGEST_NUMBER = 2**53

# When it was made, its repository, its number.
PullPlace = tuple[int, str, int]
_NEWEST: PullPlace = (_LARGEST_NUMBER, "", 0)

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
    # What the audit log calls who merged or closed it.
    ended_by: str | None
    # Where its platform shows it; None for `local`, whose pages are ours.
    url: str | None = None

    @property
    def path(self) -> str:
        """Where its page is, below the service's public address."""
        return pull_path(self.organization, self.repo, self.number)

    @property
    def place(self) -> PullPlace:
        """Where it stands in the list, for the page that begins after it."""
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
    limit: int | None = None,
    before: PullPlace | None = None,
) -> list[Pull]:
    """Newest first, of one repository or of all; every one of them unless `limit` says less.

    `before` is the place of the last one already seen.
    """
    if full_name is not None:
        await _check_connected(db, organization, full_name)
    created_at, name, number = before or _NEWEST
    rows = await db.fetch_all(
        _PAGE,
        organization=organization,
        full_name=full_name,
        state=state,
        created_at=created_at,
        name=name,
        number=number,
        limit=_LARGEST_NUMBER if limit is None else limit,
    )
    return [_pull(row) for row in rows]


async def get_pull(db: Database, organization: str, full_name: str, number: int) -> Pull:
    row = None
    if 0 < number < _LARGEST_NUMBER:
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
            "`agentjobs pulls list` shows those there are.",
        )
    return _pull(row)


def check_here(pull: Pull) -> None:
    """Raises Problem for one that its platform keeps."""
    if pull.url is not None:
        raise Problem(
            "pull_elsewhere",
            f"Pull request {pull.number} is kept by its platform, so that only who is there can "
            f"change it: {pull.url}",
        )


def check_open(pull: Pull) -> None:
    """And that it can be changed here."""
    check_here(pull)
    if pull.state != "open":
        raise Problem("pull_not_open", f"Pull request {pull.number} is {pull.state} already.")


async def close_pull(db: Database, organization: str, full_name: str, number: int) -> Pull:
    """Its branch stays, so that nothing is lost."""
    pull = await get_pull(db, organization, full_name, number)
    check_open(pull)
    await db.transact(_close, pull, audit.entry("pull.closed", pull.short_name))
    return await get_pull(db, organization, full_name, number)


async def ready_pull(
    db: Database,
    organization: str,
    full_name: str,
    number: int,
    *,
    also: InSameTransaction | None = None,
) -> Pull:
    """No draft any more; `also` is done in the same transaction, and only if it was one."""
    pull = await get_pull(db, organization, full_name, number)
    check_open(pull)
    entry = audit.entry("pull.ready", pull.short_name)
    await db.transact(_make_ready, pull, also, entry)
    return await get_pull(db, organization, full_name, number)


async def _close(tx: Transaction, pull: Pull, entry: audit.Entry) -> None:
    changed = await tx.execute(
        "UPDATE pulls SET state = 'closed', closed_at = :now, ended_by = :ended_by"
        " WHERE repo_id = :repo_id AND number = :number AND state = 'open'",
        repo_id=pull.repo_id,
        number=pull.number,
        now=now_ms(),
        ended_by=entry.actor.name,
    )
    if not changed:
        raise Problem("pull_not_open", "Somebody else merged or closed it a moment ago.")
    await audit.write(tx, pull.organization_id, entry)


async def _make_ready(
    tx: Transaction, pull: Pull, also: InSameTransaction | None, entry: audit.Entry
) -> None:
    was_draft = await tx.execute(
        "UPDATE pulls SET draft = FALSE"
        " WHERE repo_id = :repo_id AND number = :number AND state = 'open' AND draft",
        repo_id=pull.repo_id,
        number=pull.number,
    )
    if not was_draft:
        return
    await audit.write(tx, pull.organization_id, entry)
    if also is not None:
        await also(tx, pull)


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
            "`agentjobs repos list` shows those there are.",
        )


def _pull(row: Row) -> Pull:
    return Pull(
        organization=row["organization"],
        organization_id=row["organization_id"],
        repo_id=row["repo_id"],
        repo=row["full_name"],
        default_branch=row["default_branch"],
        number=row["number"],
        title=row["title"],
        body=row["body"],
        state=row["state"],
        draft=bool(row["draft"]),
        head_branch=row["head_branch"],
        base_branch=row["base_branch"],
        head_commit=row["head_commit"],
        base_commit=row["base_commit"],
        merge_commit=row["merge_commit"],
        created_at=row["created_at"],
        merged_at=row["merged_at"],
        closed_at=row["closed_at"],
        ended_by=row["ended_by"],
        url=row["url"],
    )
