"""The tables `advisories` and `advisory_packages`, `…_names` and `…_texts`: storing and queries."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence

import msgspec

from agentjobs.store.database import Database, Transaction
from agentjobs.store.insert_statement import insert_statement
from agentjobs.store.like_pattern import contains_pattern
from agentjobs_dependencies.advisories.model import Advisory, package_name
from agentjobs_dependencies.advisories.texts import AdvisoryText

# Incremented when what is stored of a record changes, so that all records are rewritten.
FORMAT = 3
GENERATIONS_OF_A_FORMAT = 1_000_000
_MAX_NAME_LENGTH = 512
# Steps from record to record by shared names; real groups need one.
_MAX_STEPS = 3
_SEARCH_BATCH = 1_000

_decode = msgspec.json.Decoder(Advisory).decode
_decode_text = msgspec.json.Decoder(AdvisoryText).decode

_UPSERT = insert_statement(
    "advisories",
    {"id": "text", "modified": "text", "data": "text", "generation": "bigint", "feed": "text"},
    key=("id",),
)
_INSERT_PACKAGE = insert_statement(
    "advisory_packages", {"ecosystem": "text", "name": "text", "advisory_id": "text"}
)
_INSERT_NAME = insert_statement("advisory_names", {"name": "text", "advisory_id": "text"})
_INSERT_TEXT = insert_statement("advisory_texts", {"advisory_id": "text", "data": "text"})


class StoredState(msgspec.Struct, frozen=True):
    """The stored state of an advisory, and the feed that it came from."""

    modified: str
    feed: str
    is_current_format: bool


async def load_states(db: Database, ids: Iterable[str]) -> dict[str, StoredState]:
    rows = await db.fetch_all(
        "SELECT id, modified, feed, generation FROM advisories"
        " WHERE id IN (SELECT value FROM each(:ids))",
        ids=list(ids),
    )
    return {
        row["id"]: StoredState(
            row["modified"], row["feed"], row["generation"] // GENERATIONS_OF_A_FORMAT == FORMAT
        )
        for row in rows
    }


async def put(
    tx: Transaction, feed: str, generation: int, advisories: Sequence[Advisory]
) -> set[str]:
    """Store advisories and return the ecosystems that the old or new records affect."""
    # Sorted, so that two feeds with the same records cannot deadlock.
    ordered = sorted(
        {record.id: record for record in advisories}.values(), key=lambda record: record.id
    )
    before = await _delete_details(tx, [record.id for record in ordered])
    await _UPSERT.run(
        tx,
        [
            {
                "id": record.id,
                "modified": record.modified,
                "data": msgspec.json.encode(
                    msgspec.structs.replace(record, text=msgspec.UNSET)
                ).decode(),
                "generation": generation,
                "feed": feed,
            }
            for record in ordered
        ],
    )
    packages = [
        {"ecosystem": ecosystem, "name": name, "advisory_id": record.id}
        for record in ordered
        for ecosystem, name in _packages(record)
    ]
    await _INSERT_PACKAGE.run(tx, packages)
    names = [
        {"name": name, "advisory_id": record.id}
        for record in ordered
        for name in sorted(record.names)
    ]
    await _INSERT_NAME.run(tx, names)
    texts = [
        {"advisory_id": record.id, "data": msgspec.json.encode(record.text).decode()}
        for record in ordered
        if record.text is not msgspec.UNSET
    ]
    await _INSERT_TEXT.run(tx, texts)
    return before | {package["ecosystem"] for package in packages}


async def remove(tx: Transaction, ids: Collection[str]) -> set[str]:
    """Delete advisories and return the ecosystems that they affect."""
    affected_ecosystems = await _delete_details(tx, ids)
    await tx.execute(
        "DELETE FROM advisories WHERE id IN (SELECT value FROM each(:ids))", ids=sorted(ids)
    )
    return affected_ecosystems


async def ids_of_feed(db: Database, feed: str, after: str, limit: int) -> list[str]:
    rows = await db.fetch_all(
        "SELECT id FROM advisories WHERE feed = :feed AND id > :after ORDER BY id LIMIT :limit",
        feed=feed,
        after=after,
        limit=limit,
    )
    return [row["id"] for row in rows]


async def count_advisories(db: Database, ecosystem: str) -> int:
    """The number of advisories about the ecosystem, from any feed."""
    # Not a point read, because it is slow for a large feed.
    (row,) = await db.fetch_all(
        "SELECT COUNT(DISTINCT advisory_id) AS number FROM advisory_packages"
        " WHERE ecosystem = :ecosystem",
        ecosystem=ecosystem,
    )
    return int(row["number"])


async def advisories_for(db: Database, ecosystem: str, names: Collection[str]) -> list[Advisory]:
    """All advisories about these packages, and related records of the same vulnerabilities."""
    rows = await db.fetch_all(
        "SELECT id, data FROM advisories WHERE id IN (SELECT advisory_id FROM advisory_packages"
        " WHERE ecosystem = :ecosystem AND name IN (SELECT value FROM each(:names)))",
        ecosystem=ecosystem,
        names=sorted(names),
    )
    records = {row["id"]: _decode(row["data"]) for row in rows}
    fresh: Collection[str] = list(records)
    for _ in range(_MAX_STEPS):
        if not fresh:
            break
        relatives = await _relatives(db, fresh)
        fresh = [record.id for record in relatives if record.id not in records]
        records.update({record.id: record for record in relatives})
    return list(records.values())


async def load_relatives(db: Database, advisories: Sequence[Advisory]) -> dict[str, list[Advisory]]:
    """Loads, by ID, the advisories that share a name with each one, including itself."""
    relatives = await _relatives(db, [record.id for record in advisories])
    by_name: dict[str, list[Advisory]] = defaultdict(list)
    for relative in relatives:
        for name in relative.names:
            by_name[name].append(relative)
    return {
        record.id: list(
            {other.id: other for name in record.names for other in by_name[name]}.values()
        )
        for record in advisories
    }


async def load_texts(db: Database, ids: Sequence[str]) -> list[AdvisoryText]:
    """Loads the texts of the records that have one, in the given order."""
    rows = await db.fetch_all(
        "SELECT advisory_id, data FROM advisory_texts"
        " WHERE advisory_id IN (SELECT value FROM each(:ids))",
        ids=list(ids),
    )
    texts = {row["advisory_id"]: _decode_text(row["data"]) for row in rows}
    return [texts[advisory_id] for advisory_id in ids if advisory_id in texts]


async def search(
    db: Database, text: str, *, ecosystem: str | None = None, limit: int = 100
) -> list[Advisory]:
    """Search ids, aliases, packages and summaries; exact matches first."""
    query = text.strip()
    results: dict[str, Advisory] = {}
    exact = await db.fetch_all(
        "SELECT id, data FROM advisories WHERE id IN (SELECT advisory_id FROM advisory_names"
        " WHERE name IN (SELECT value FROM each(:names))) OR id IN (SELECT advisory_id"
        " FROM advisory_packages WHERE name IN (SELECT value FROM each(:packages))) ORDER BY id",
        names=_spellings(query),
        packages=sorted({query, query.lower(), package_name("PyPI", query)}),
    )
    for row in exact:
        record = _decode(row["data"])
        if _is_about(record, ecosystem):
            results[record.id] = record
    if len(results) < limit:
        async for record in _search_text(db, query.lower()):
            if _is_about(record, ecosystem):
                results.setdefault(record.id, record)
            if len(results) >= limit:
                break
    return list(results.values())[:limit]


async def _search_text(db: Database, text: str) -> AsyncIterator[Advisory]:
    after = ""
    while rows := await db.fetch_all(
        "SELECT id, data FROM advisories WHERE id > :after AND lower(data) LIKE :pattern"
        " ESCAPE '!' ORDER BY id LIMIT :limit",
        after=after,
        pattern=contains_pattern(text),
        limit=_SEARCH_BATCH,
    ):
        for row in rows:
            record = _decode(row["data"])
            # The column also has names of fields and versions, which are not searched.
            if any(text in candidate.lower() for candidate in _texts(record)):
                yield record
        after = rows[-1]["id"]


def _texts(advisory: Advisory) -> Iterator[str]:
    yield from (advisory.id, advisory.summary, *advisory.aliases)
    yield from (package.name for package in advisory.affected)


def _is_about(advisory: Advisory, ecosystem: str | None) -> bool:
    return ecosystem is None or any(item.ecosystem == ecosystem for item in advisory.affected)


def _spellings(identifier: str) -> list[str]:
    """Ids are mostly upper case; GitHub's are lower case after the prefix."""
    upper = identifier.upper()
    github = upper[:5] + identifier[5:].lower() if upper.startswith("GHSA-") else upper
    return sorted({identifier, upper, github})


def _packages(advisory: Advisory) -> Iterator[tuple[str, str]]:
    for item in advisory.affected:
        if len(item.name) <= _MAX_NAME_LENGTH and "\0" not in item.name:
            yield item.ecosystem, item.name


async def _relatives(db: Database, ids: Collection[str]) -> list[Advisory]:
    rows = await db.fetch_all(
        "SELECT data FROM advisories WHERE id IN (SELECT other.advisory_id FROM advisory_names own"
        " JOIN advisory_names other ON other.name = own.name"
        " WHERE own.advisory_id IN (SELECT value FROM each(:ids)))",
        ids=sorted(ids),
    )
    return [_decode(row["data"]) for row in rows]


async def _delete_details(tx: Transaction, ids: Collection[str]) -> set[str]:
    sorted_ids = sorted(ids)
    rows = await tx.fetch_all(
        "SELECT DISTINCT ecosystem FROM advisory_packages"
        " WHERE advisory_id IN (SELECT value FROM each(:ids))",
        ids=sorted_ids,
    )
    for table in ("advisory_packages", "advisory_names", "advisory_texts"):
        await tx.execute(
            f"DELETE FROM {table} WHERE advisory_id IN (SELECT value FROM each(:ids))",
            ids=sorted_ids,
        )
    return {row["ecosystem"] for row in rows}
