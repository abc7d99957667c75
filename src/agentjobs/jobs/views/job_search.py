"""Builds the SQL that finds a page of jobs, newest first: which index is scanned and how far.

One filter is a range of an index. With several, the index of the rarest value is scanned and the
other filters are applied to its jobs. A bounded scan stops after a number of jobs and says where.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

# Above every identifier, in every collation.
NO_BOUND = "job_" + "z" * 26
# How many jobs a bounded scan reads at most.
MAX_SCANNED = 2_500
# How many jobs of a value are read to tell how rare it is, if the scan itself is not bounded.
_RARITY_SAMPLE = 200


class _Index(msgspec.Struct, frozen=True):
    """An index on organization, `column` and identifier."""

    name: str
    column: str
    # The same value as an expression that no index matches.
    unindexed: str = ""
    owner: str = "organization_id"


_OF_ORGANIZATION = _Index("jobs_of_organization", "organization_id")
_INDEXES: Mapping[str, _Index] = {
    "ticket_id": _Index("jobs_of_ticket", "ticket_id", "ticket_id || ''"),
    "repo": _Index("jobs_of_repo", "repo", "repo || ''"),
    "agent": _Index("jobs_of_agent", "agent", "agent || ''"),
    "status": _Index("jobs_of_status", "(status || '')", "status", "organization_id || ''"),
}
# Filters without an index.
_UNINDEXED: Mapping[str, str] = {"created_by": "created_by = :created_by"}


def page_query(
    filters: Collection[str], *, limit: int, bounded: bool, conditions: Sequence[str] = ()
) -> str:
    """`WITH page AS …, reached AS …`: the jobs as `page.id`, and how far the scan got.

    `filters` are columns whose values are parameters, as are :organization_id, :before and
    :since. `reached.id` is :since, unless a bounded scan stopped earlier. `conditions` are only
    for bounded scans.
    """
    indexed = [name for name in _INDEXES if name in filters]
    others = [*(_UNINDEXED[name] for name in _UNINDEXED if name in filters), *conditions]
    if len(indexed) > 1 or (others and bounded):
        return _scan_rarest(indexed or ["organization_id"], others, limit, bounded=bounded)
    scan = _full_scan(indexed[0] if indexed else "organization_id", others, limit)
    return (
        f"WITH page AS MATERIALIZED (SELECT id FROM {scan}),"
        " reached AS (SELECT CAST(:since AS TEXT) AS id)"
    )


def _scan_rarest(names: Sequence[str], others: Sequence[str], limit: int, *, bounded: bool) -> str:
    """The rarer a value, the older is the last of the newest jobs that have it."""
    floors = {name: f"floor_of_{name}" for name in names}
    sample = MAX_SCANNED if bounded else _RARITY_SAMPLE
    floor_queries = ", ".join(
        f"{floor} AS MATERIALIZED ({_floor(name, sample)})" for name, floor in floors.items()
    )
    scans = []
    for position, name in enumerate(names):
        conditions = [f"{_INDEXES[each].unindexed} = :{each}" for each in names if each != name]
        # Exactly one index is chosen among equals: no job may be found twice.
        chosen = [
            f"(SELECT id FROM {floors[name]}) {'<' if rival < position else '<='}"
            f" (SELECT id FROM {floors[names[rival]]})"
            for rival in range(len(names))
            if rival != position
        ]
        conditions += others
        scans.append(
            _bounded_scan(name, floors[name], [*conditions, *chosen], limit)
            if bounded
            else _full_scan(name, conditions, limit, chosen=chosen)
        )
    merged = " UNION ALL ".join(f"SELECT id FROM {scan}" for scan in scans)
    ends = " UNION ALL ".join(f"SELECT id FROM {floor}" for floor in floors.values())
    reached = f"SELECT MIN(id) AS id FROM ({ends}) AS ends"
    return (
        f"WITH {floor_queries}, page AS MATERIALIZED (SELECT id FROM ({merged}) AS merged"
        f" ORDER BY id DESC LIMIT {limit}), reached AS ({reached})"
    )


def _floor(name: str, sample: int) -> str:
    """The last of so many jobs; :since when there are fewer."""
    last = _full_scan(name, (), 1, skipped=sample - 1)
    return f"SELECT COALESCE((SELECT id FROM {last}), :since) AS id"


def _full_scan(
    name: str,
    conditions: Sequence[str],
    limit: int,
    *,
    skipped: int = 0,
    chosen: Sequence[str] = (),
) -> str:
    """Nothing is read unless all of `chosen` hold, which name no columns.

    On PostgreSQL :since does not end the scan, so older jobs are filtered out afterwards.
    """
    index, exact = _exact(name)
    # As a condition, SQLite would check it for every job.
    sqlite_limit = f"(CASE WHEN {' AND '.join(chosen)} THEN {limit} ELSE 0 END)"
    return (
        f"(/*sqlite SELECT id FROM jobs INDEXED BY {index.name} WHERE {exact} AND id < :before"
        f" AND id >= :since{_and(conditions)} ORDER BY id DESC"
        f" LIMIT {sqlite_limit if chosen else limit} OFFSET {skipped} */"
        " /*postgresql SELECT id FROM (SELECT id FROM jobs"
        f" WHERE {_by_pairs(name)}{_and([*conditions, *chosen])}"
        f" ORDER BY {index.column} DESC, id DESC LIMIT {limit} OFFSET {skipped}) AS newest"
        " WHERE id >= :since */) AS scan"
    )


def _bounded_scan(name: str, floor: str, conditions: Sequence[str], limit: int) -> str:
    """On PostgreSQL the scan is a subquery, so that the planner cannot choose another index."""
    index, exact = _exact(name)
    return (
        f"(SELECT id FROM /*sqlite jobs INDEXED BY {index.name} WHERE {exact} AND id < :before"
        f" AND id >= (SELECT id FROM {floor}) */"
        f" /*postgresql (SELECT jobs.*, {index.column} AS scanned FROM jobs WHERE {_by_pairs(name)}"
        f" ORDER BY {index.column} DESC, id DESC LIMIT {MAX_SCANNED}) AS newest"
        f" WHERE id >= :since */{_and(conditions)}"
        f" ORDER BY /*postgresql scanned DESC, */ id DESC LIMIT {limit}) AS scan"
    )


def _exact(name: str) -> tuple[_Index, str]:
    if name == "organization_id":
        return _OF_ORGANIZATION, "organization_id = :organization_id"
    index = _INDEXES[name]
    return index, f"{index.owner} = :organization_id AND {index.column} = :{name}"


def _by_pairs(name: str) -> str:
    """Ordering by both columns leaves the planner no other index."""
    column = _INDEXES.get(name, _OF_ORGANIZATION).column
    pairs = f"({column}, id) < (:{name}, :before) AND {column} >= :{name}"
    if name == "organization_id":
        return pairs
    return f"{_INDEXES[name].owner} = :organization_id AND {name} IS NOT NULL AND {pairs}"


def _and(conditions: Iterable[str]) -> str:
    return "".join(f" AND {condition}" for condition in conditions)
