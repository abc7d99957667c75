"""Builds the SQL that finds a page of jobs, newest first: which index is scanned and how far.

One filter is a range of an index. With several, the index of the rarest value is scanned and the
other filters are applied to its jobs. Such a scan stops after a number of jobs and says where.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

# Above every identifier, in every collation.
NO_BOUND = "job_" + "z" * 26


class _Column(msgspec.Struct, frozen=True):
    """An index on organization, `column` and identifier; `name` is the filter."""

    name: str
    index: str
    column: str
    # The same value as an expression that no index matches.
    unindexed: str = ""
    owner: str = "organization_id"

    @property
    def condition(self) -> str:
        return f"{self.unindexed} = :{self.name}"

    def newest(self, limit: int, *, skipped: int = 0) -> str:
        """On PostgreSQL :since does not end the scan, so older jobs are filtered out afterwards."""
        return (
            f"(/*sqlite SELECT id FROM jobs INDEXED BY {self.index} WHERE {self._exact()}"
            " AND id < :before AND id >= :since ORDER BY id DESC"
            f" LIMIT {limit} OFFSET {skipped} */"
            f" /*postgresql SELECT id FROM (SELECT id FROM jobs WHERE {self._pairs()}"
            f" ORDER BY {self.column} DESC, id DESC LIMIT {limit} OFFSET {skipped}) AS newest"
            " WHERE id >= :since */) AS scan"
        )

    def filtered(
        self, conditions: Sequence[str], chosen: Sequence[str], limit: int, scan_size: int
    ) -> str:
        """On PostgreSQL a subquery is scanned, so that the planner cannot choose another index."""
        return (
            f"(SELECT id FROM /*sqlite jobs INDEXED BY {self.index} WHERE {self._exact()}"
            f" AND id < :before AND id >= (SELECT id FROM {_floor_name(self)}) */"
            f" /*postgresql (SELECT jobs.*, {self.column} AS indexed FROM jobs"
            f" WHERE {self._pairs()} ORDER BY {self.column} DESC, id DESC LIMIT {scan_size})"
            f" AS newest WHERE id >= :since */{_and([*chosen, *conditions])}"
            f" ORDER BY /*postgresql indexed DESC, */ id DESC LIMIT {limit}) AS scan"
        )

    def _exact(self) -> str:
        exact = f"{self.owner} = :organization_id"
        return exact if self is _ORGANIZATION else f"{exact} AND {self.column} = :{self.name}"

    def _pairs(self) -> str:
        """Ordering by both columns leaves the planner no other index."""
        pairs = f"({self.column}, id) < (:{self.name}, :before) AND {self.column} >= :{self.name}"
        if self is _ORGANIZATION:
            return pairs
        return f"{self.owner} = :organization_id AND {self.name} IS NOT NULL AND {pairs}"


class _Label(msgspec.Struct, frozen=True):
    """The primary key of `job_labels`: organization, key, value and identifier."""

    number: int

    @property
    def name(self) -> str:
        return f"label_{self.number}"

    @property
    def condition(self) -> str:
        # No planner turns the count into a join.
        return (
            "(SELECT COUNT(*) FROM job_labels WHERE organization_id = :organization_id"
            f" AND key = :{self._key} AND value = :{self._value} AND job_id = id) = 1"
        )

    def newest(self, limit: int, *, skipped: int = 0) -> str:
        range_of_key = f"organization_id = :organization_id AND key = :{self._key}"
        return (
            f"(/*sqlite SELECT job_id AS id FROM job_labels WHERE {range_of_key}"
            f" AND value = :{self._value} AND job_id < :before AND job_id >= :since"
            f" ORDER BY job_id DESC LIMIT {limit} OFFSET {skipped} */"
            " /*postgresql SELECT id FROM (SELECT job_id AS id FROM job_labels"
            f" WHERE {range_of_key} AND (value, job_id) < (:{self._value}, :before)"
            f" AND value >= :{self._value} ORDER BY value DESC, job_id DESC"
            f" LIMIT {limit} OFFSET {skipped}) AS newest WHERE id >= :since */) AS scan"
        )

    def filtered(
        self, conditions: Sequence[str], chosen: Sequence[str], limit: int, scan_size: int
    ) -> str:
        """The jobs are read one by one: as a join, a planner might begin with them."""
        matches = f"CASE WHEN {' AND '.join(conditions)} THEN 1 END"
        is_match = f"(SELECT {matches} FROM jobs WHERE jobs.id = scan.id) = 1"
        return (
            f"(SELECT id FROM {self.newest(scan_size)}"
            f" WHERE {' AND '.join([*chosen, is_match])} ORDER BY id DESC LIMIT {limit}) AS scan"
        )

    @property
    def _key(self) -> str:
        return label_parameters(self.number)[0]

    @property
    def _value(self) -> str:
        return label_parameters(self.number)[1]


_Source = _Column | _Label

_ORGANIZATION = _Column("organization_id", "jobs_of_organization", "organization_id")
_TICKET = _Column("ticket_id", "jobs_of_ticket", "ticket_id", "ticket_id || ''")
_COLUMNS = (
    _Column("status", "jobs_of_status", "(status || '')", "status", "organization_id || ''"),
    _Column("repo", "jobs_of_repo", "repo", "repo || ''"),
    _Column("agent", "jobs_of_agent", "agent", "agent || ''"),
)
# Among how many filters the rarest is searched: each makes the statement larger, and planning it
# takes PostgreSQL longer than running it.
_MAX_SOURCES = 4
# Filters without an index of their own.
_CONDITIONS: Mapping[str, str] = {
    "created_by": "created_by = :created_by",
    "created_since": "created_at >= :created_since",
    "created_until": "created_at < :created_until",
}
_COMPLETE = "reached AS (SELECT CAST(:since AS TEXT) AS id)"


def label_parameters(number: int) -> tuple[str, str]:
    """The names of the parameters for the key and the value of a label."""
    return f"label_key_{number}", f"label_value_{number}"


def page_query(
    filters: Collection[str],
    *,
    limit: int,
    scan_size: int,
    labels: int = 0,
    conditions: Sequence[str] = (),
) -> str:
    """`WITH page AS …, reached AS …`: the jobs as `page.id`, and how far the scan got.

    `filters` have their values as parameters, as have :organization_id, :before and :since;
    `labels` is how many labels are required. A scan that applies other filters to the jobs of an
    index reads at most `scan_size`. `reached.id` is :since, unless the scan stopped earlier.
    """
    # From what is usually rare to what is usually common.
    given: list[_Source] = [_TICKET, *map(_Label, range(labels)), *_COLUMNS]
    given = [
        condition
        for condition in given
        if isinstance(condition, _Label) or condition.name in filters
    ]
    sources = [] if "follows" in filters else given[:_MAX_SOURCES]
    others = [
        *(source.condition for source in given[len(sources) :]),
        *(_CONDITIONS[name] for name in _CONDITIONS if name in filters),
        *conditions,
    ]
    if "follows" in filters:
        return _follow_ups(others, limit)
    if len(sources) > 1 or others:
        return _scan_rarest(sources or [_ORGANIZATION], others, limit, scan_size)
    (source,) = sources or [_ORGANIZATION]
    return f"WITH page AS MATERIALIZED (SELECT id FROM {source.newest(limit)}), {_COMPLETE}"


def _follow_ups(conditions: Sequence[str], limit: int) -> str:
    """A job has few follow-ups, which are all read: no other index is considered."""
    return (
        "WITH page AS MATERIALIZED (SELECT id FROM jobs /*sqlite INDEXED BY jobs_that_follow */"
        " WHERE follows = :follows AND organization_id || '' = :organization_id"
        f" AND id || '' < :before AND id || '' >= :since{_and(conditions)}"
        f" ORDER BY id || '' DESC LIMIT {limit}), {_COMPLETE}"
    )


def _scan_rarest(
    sources: Sequence[_Source], others: Sequence[str], limit: int, scan_size: int
) -> str:
    """The rarer a value, the older is the last of the newest jobs that have it."""
    floors = ", ".join(
        f"{_floor_name(source)} AS MATERIALIZED ({_floor(source, scan_size)})" for source in sources
    )
    scans = []
    for position, source in enumerate(sources):
        conditions = [other.condition for other in sources if other is not source]
        # Exactly one index is chosen among equals: no job may be found twice.
        chosen = [
            f"(SELECT id FROM {_floor_name(source)}) {'<' if rival < position else '<='}"
            f" (SELECT id FROM {_floor_name(sources[rival])})"
            for rival in range(len(sources))
            if rival != position
        ]
        scans.append(source.filtered([*conditions, *others], chosen, limit, scan_size))
    merged = " UNION ALL ".join(f"SELECT id FROM {scan}" for scan in scans)
    ends = " UNION ALL ".join(f"SELECT id FROM {_floor_name(source)}" for source in sources)
    return (
        f"WITH {floors}, page AS MATERIALIZED (SELECT id FROM ({merged}) AS merged"
        f" ORDER BY id DESC LIMIT {limit}),"
        f" reached AS (SELECT MIN(id) AS id FROM ({ends}) AS ends)"
    )


def _floor(source: _Source, scan_size: int) -> str:
    """The last of the jobs that a scan may read; :since when there are fewer."""
    last = source.newest(1, skipped=scan_size - 1)
    return f"SELECT COALESCE((SELECT id FROM {last}), :since) AS id"


def _floor_name(source: _Source) -> str:
    return f"floor_of_{source.name}"


def _and(conditions: Iterable[str]) -> str:
    return "".join(f" AND {condition}" for condition in conditions)
