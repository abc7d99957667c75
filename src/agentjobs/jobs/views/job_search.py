"""Finding the jobs of a page, newest first: which index is walked and how far. Only writes SQL.

A filter alone is a range of an index. Of several, the index of the rarest value is walked, and what
does not fit the others is passed over; a bounded walk stops after so many jobs and says where.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

# Above every identifier, in every collation.
NO_BOUND = "job_" + "z" * 26
# The most a bounded walk looks at; so many jobs also tell how rare a value is.
MOST_LOOKED_AT = 2_500


class _Index(msgspec.Struct, frozen=True):
    """Begins with the organization and ends with the identifier."""

    name: str
    column: str
    # The same value in a form for which no index is looked for.
    elsewhere: str = ""
    owner: str = "organization_id"


_OF_ORGANIZATION = _Index("jobs_of_organization", "organization_id")
_INDEXES: Mapping[str, _Index] = {
    "ticket_id": _Index("jobs_of_ticket", "ticket_id", "ticket_id || ''"),
    "repo": _Index("jobs_of_repo", "repo", "repo || ''"),
    "agent": _Index("jobs_of_agent", "agent", "agent || ''"),
    "status": _Index("jobs_of_status", "(status || '')", "status", "organization_id || ''"),
}
# What has no index of its own.
_OTHERS: Mapping[str, str] = {"created_by": "created_by = :created_by"}


def found_jobs(
    filters: Collection[str], *, limit: int, bounded: bool, conditions: Sequence[str] = ()
) -> str:
    """`WITH page AS …, reached AS …`: the jobs as `page.id`, and as `reached.id` how far it looked.

    `filters` are the columns whose values are parameters, beside :organization_id, :before and
    :since. `reached.id` is :since, unless a bounded walk stopped before. `conditions` are for
    bounded walks.
    """
    indexed = [name for name in _INDEXES if name in filters]
    others = [*(_OTHERS[name] for name in _OTHERS if name in filters), *conditions]
    if len(indexed) > 1 or (others and bounded):
        return _by_the_rarest(indexed or ["organization_id"], others, limit, bounded=bounded)
    walk = _all_of(indexed[0] if indexed else "organization_id", others, limit)
    return (
        f"WITH page AS MATERIALIZED (SELECT id FROM {walk}),"
        " reached AS (SELECT CAST(:since AS TEXT) AS id)"
    )


def _by_the_rarest(
    names: Sequence[str], others: Sequence[str], limit: int, *, bounded: bool
) -> str:
    """The rarer a value, the further back lies the last of so many jobs that have it."""
    floors = {name: f"floor_of_{name}" for name in names}
    looked_up = ", ".join(
        f"{floor} AS MATERIALIZED ({_floor(name)})" for name, floor in floors.items()
    )
    walks = []
    for place, name in enumerate(names):
        conditions = [f"{_INDEXES[each].elsewhere} = :{each}" for each in names if each != name]
        # One of equals alone, or its jobs would be found twice.
        chosen = [
            f"(SELECT id FROM {floors[name]}) {'<' if rival < place else '<='}"
            f" (SELECT id FROM {floors[names[rival]]})"
            for rival in range(len(names))
            if rival != place
        ]
        conditions += [*others, *chosen]
        walks.append(
            _some_of(name, floors[name], conditions, limit)
            if bounded
            else _all_of(name, conditions, limit)
        )
    merged = " UNION ALL ".join(f"SELECT id FROM {walk}" for walk in walks)
    ends = " UNION ALL ".join(f"SELECT id FROM {floor}" for floor in floors.values())
    reached = f"SELECT MIN(id) AS id FROM ({ends}) AS ends"
    return (
        f"WITH {looked_up}, page AS MATERIALIZED (SELECT id FROM ({merged}) AS merged"
        f" ORDER BY id DESC LIMIT {limit}), reached AS ({reached})"
    )


def _floor(name: str) -> str:
    """The last job a bounded walk looks at; :since where there are not so many."""
    last = _all_of(name, (), 1, skipped=MOST_LOOKED_AT - 1)
    return f"SELECT COALESCE((SELECT id FROM {last}), :since) AS id"


def _all_of(name: str, conditions: Sequence[str], limit: int, *, skipped: int = 0) -> str:
    """On PostgreSQL :since would not end the walk: what is older is left out afterwards."""
    index, exact = _exact(name)
    and_more = _and(conditions)
    return (
        f"(/*sqlite SELECT id FROM jobs INDEXED BY {index.name} WHERE {exact} AND id < :before"
        f" AND id >= :since{and_more} ORDER BY id DESC"
        f" LIMIT {limit} OFFSET {skipped} */"
        f" /*postgresql SELECT id FROM (SELECT id FROM jobs WHERE {_by_pairs(name)}{and_more}"
        f" ORDER BY {index.column} DESC, id DESC LIMIT {limit} OFFSET {skipped}) AS newest"
        " WHERE id >= :since */) AS walk"
    )


def _some_of(name: str, floor: str, conditions: Sequence[str], limit: int) -> str:
    """What is looked at and what fits, apart on PostgreSQL: it has no way round the index then."""
    index, exact = _exact(name)
    return (
        f"(SELECT id FROM /*sqlite jobs INDEXED BY {index.name} WHERE {exact} AND id < :before"
        f" AND id >= (SELECT id FROM {floor}) */"
        f" /*postgresql (SELECT jobs.*, {index.column} AS walked FROM jobs WHERE {_by_pairs(name)}"
        f" ORDER BY {index.column} DESC, id DESC LIMIT {MOST_LOOKED_AT}) AS newest"
        f" WHERE id >= :since */{_and(conditions)}"
        f" ORDER BY /*postgresql walked DESC, */ id DESC LIMIT {limit}) AS walk"
    )


def _exact(name: str) -> tuple[_Index, str]:
    if name == "organization_id":
        return _OF_ORGANIZATION, "organization_id = :organization_id"
    index = _INDEXES[name]
    return index, f"{index.owner} = :organization_id AND {index.column} = :{name}"


def _by_pairs(name: str) -> str:
    """The index's order is asked for by both columns: no other index has it."""
    column = _INDEXES.get(name, _OF_ORGANIZATION).column
    pairs = f"({column}, id) < (:{name}, :before) AND {column} >= :{name}"
    if name == "organization_id":
        return pairs
    return f"{_INDEXES[name].owner} = :organization_id AND {name} IS NOT NULL AND {pairs}"


def _and(conditions: Iterable[str]) -> str:
    return "".join(f" AND {condition}" for condition in conditions)
