"""Which jobs a list shows, and the parameters of the statement that finds them."""

from collections.abc import Mapping, Sequence

import msgspec

from agentjobs.jobs.states import JobStatus
from agentjobs.jobs.views.job_search import NO_BOUND, label_parameters, page_query
from agentjobs.store.database import Database
from agentjobs_runtime.identifiers import first_id_at

# Identifiers have the time of the API server, `created_at` that of the database.
_MAX_CLOCK_DIFFERENCE_MS = 60_000
# How many jobs each scan for a page reads at most. The first is enough for filters that many jobs
# match; after the last an incomplete page is returned.
SCAN_SIZES = (200, 2_500, 2_500, 2_500)


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None matches any value. `since` and `until` are in milliseconds; `until` is exclusive.

    `created_by` is the identifier of a key or a user. A job must have all of `labels`.
    """

    status: JobStatus | None = None
    repo: str | None = None
    agent: str | None = None
    ticket: str | None = None
    follows: str | None = None
    created_by: str | None = None
    labels: Mapping[str, str] = {}
    since: int | None = None
    until: int | None = None
    # Searched in identifiers, names, errors, pull request numbers and requests.
    text: str | None = None

    def names(self) -> tuple[str, ...]:
        """The filters of `page_query`, except labels and text."""
        return tuple(self._values())

    def parameters(self, before: str | None) -> dict[str, str | int]:
        """Parameters of a `page_query`, without the organization; `before` is the last job seen."""
        labels: dict[str, str] = {}
        for number, label in enumerate(self.labels.items()):
            labels.update(zip(label_parameters(number), label, strict=True))
        return {
            **self._values(),
            **labels,
            "before": min(NO_BOUND if before is None else before, self._upper_bound()),
            "since": self.lower_bound(),
        }

    def lower_bound(self) -> str:
        """All jobs of the filter have this identifier or a greater one."""
        if self.since is None:
            return ""
        return first_id_at("job", max(self.since - _MAX_CLOCK_DIFFERENCE_MS, 0))

    def _upper_bound(self) -> str:
        if self.until is None:
            return NO_BOUND
        return first_id_at("job", max(self.until + _MAX_CLOCK_DIFFERENCE_MS, 0))

    def _values(self) -> dict[str, str | int]:
        values = {
            "status": self.status,
            "repo": self.repo,
            "agent": self.agent,
            "ticket_id": self.ticket,
            "follows": self.follows,
            "created_by": self.created_by,
            "created_since": self.since,
            "created_until": self.until,
        }
        return {name: value for name, value in values.items() if value is not None}


class FoundJobs(msgspec.Struct, frozen=True):
    """Newest first. `next_before` is the cursor of the next page, None at the end."""

    ids: list[str]
    next_before: str | None


async def find_jobs(
    db: Database,
    organization_id: str,
    filters: Sequence[JobFilter],
    *,
    limit: int,
    before: str | None,
) -> FoundJobs:
    """Jobs that match one of the filters, each of which has another status.

    The page may be incomplete, even empty, although `next_before` is not None: a search through
    many jobs is continued by the next request.
    """
    ids: list[str] = []
    for scan_size in SCAN_SIZES:
        scans = [
            await _scan(db, organization_id, part, limit=limit, scan_size=scan_size, before=before)
            for part in filters
        ]
        # Below it, jobs of a scan that got less far are unknown.
        ends = [scan.next_before for scan in scans if scan.next_before is not None]
        before = max(ends, default=None)
        known = (job_id for scan in scans for job_id in scan.ids)
        ids += sorted(
            (job_id for job_id in known if before is None or job_id >= before), reverse=True
        )
        if len(ids) > limit:
            return FoundJobs(ids[:limit], ids[limit - 1])
        if before is None:
            break
    return FoundJobs(ids, before)


async def _scan(
    db: Database,
    organization_id: str,
    filter: JobFilter,
    *,
    limit: int,
    scan_size: int,
    before: str | None,
) -> FoundJobs:
    # A power of two above the limit: few distinct statements, and one job more than needed.
    size = 1 << limit.bit_length()
    page = page_query(filter.names(), limit=size, scan_size=scan_size, labels=len(filter.labels))
    rows = await db.fetch_all(
        f"{page} SELECT reached.id AS reached, page.id FROM reached LEFT JOIN page ON 1 = 1"
        " ORDER BY page.id DESC",
        organization_id=organization_id,
        **filter.parameters(before),
    )
    ids = [row["id"] for row in rows if row["id"] is not None]
    if len(ids) == size:
        return FoundJobs(ids, ids[-1])
    reached = rows[0]["reached"]
    return FoundJobs(ids, None if reached == filter.lower_bound() else reached)
