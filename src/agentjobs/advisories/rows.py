"""Advisories in the store: put, remove, found by package or by name."""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence

import msgspec

from agentjobs.advisories.model import Advisory, package_name
from agentjobs.store.batch_statement import BatchStatement
from agentjobs.store.database import Database, Transaction
from agentjobs.store.like_pattern import contains_pattern

# What the column `data` holds has changed whenever this does: then everything is written anew.
FORMAT = 1
GENERATIONS_OF_A_FORMAT = 1_000_000
_MAX_NAME_LENGTH = 512
# Relatives of relatives; real groups need one step.
_STEPS = 3
_SEARCHED_AT_ONCE = 1_000

_decode = msgspec.json.Decoder(Advisory).decode

_PUT = BatchStatement(
    {"id": "text", "modified": "text", "data": "text", "generation": "bigint", "feed": "text"},
    one="INSERT INTO advisories (id, modified, data, generation, feed)"
    " VALUES (:id, :modified, :data, :generation, :feed) ON CONFLICT (id) DO UPDATE SET"
    " modified = excluded.modified, data = excluded.data, generation = excluded.generation,"
    " feed = excluded.feed",
    many="INSERT INTO advisories (id, modified, data, generation, feed)"
    " SELECT id, modified, data, generation, feed FROM {rows} ON CONFLICT (id) DO UPDATE SET"
    " modified = excluded.modified, data = excluded.data, generation = excluded.generation,"
    " feed = excluded.feed",
)
_PUT_PACKAGE = BatchStatement(
    {"ecosystem": "text", "name": "text", "advisory_id": "text"},
    one="INSERT INTO advisory_packages (ecosystem, name, advisory_id)"
    " VALUES (:ecosystem, :name, :advisory_id) ON CONFLICT DO NOTHING",
    many="INSERT INTO advisory_packages (ecosystem, name, advisory_id)"
    " SELECT ecosystem, name, advisory_id FROM {rows} ON CONFLICT DO NOTHING",
)
_PUT_NAME = BatchStatement(
    {"name": "text", "advisory_id": "text"},
    one="INSERT INTO advisory_names (name, advisory_id) VALUES (:name, :advisory_id)"
    " ON CONFLICT DO NOTHING",
    many="INSERT INTO advisory_names (name, advisory_id) SELECT name, advisory_id FROM {rows}"
    " ON CONFLICT DO NOTHING",
)


class Known(msgspec.Struct, frozen=True):
    """Which state of an advisory is stored, and whose it is."""

    modified: str
    feed: str
    is_current_format: bool


async def known_states(db: Database, ids: Iterable[str]) -> dict[str, Known]:
    rows = await db.fetch_all(
        "SELECT id, modified, feed, generation FROM advisories"
        " WHERE id IN (SELECT value FROM each(:ids))",
        ids=list(ids),
    )
    return {
        row["id"]: Known(
            row["modified"], row["feed"], row["generation"] // GENERATIONS_OF_A_FORMAT == FORMAT
        )
        for row in rows
    }


async def put(
    tx: Transaction, feed: str, generation: int, advisories: Sequence[Advisory]
) -> set[str]:
    """The ecosystems that are concerned, by what was stored before and by what is now."""
    # In one order, so that two feeds with the same records wait for each other and no more.
    ordered = sorted({one.id: one for one in advisories}.values(), key=lambda one: one.id)
    before = await _forget_details(tx, [one.id for one in ordered])
    await _PUT.run(
        tx,
        [
            {
                "id": one.id,
                "modified": one.modified,
                "data": msgspec.json.encode(one).decode(),
                "generation": generation,
                "feed": feed,
            }
            for one in ordered
        ],
    )
    packages = [
        {"ecosystem": ecosystem, "name": name, "advisory_id": one.id}
        for one in ordered
        for ecosystem, name in _packages(one)
    ]
    await _PUT_PACKAGE.run(tx, packages)
    names = [{"name": name, "advisory_id": one.id} for one in ordered for name in sorted(one.names)]
    await _PUT_NAME.run(tx, names)
    return before | {package["ecosystem"] for package in packages}


async def remove(tx: Transaction, ids: Collection[str]) -> set[str]:
    """The ecosystems that are concerned."""
    concerned = await _forget_details(tx, ids)
    await tx.execute(
        "DELETE FROM advisories WHERE id IN (SELECT value FROM each(:ids))", ids=sorted(ids)
    )
    return concerned


async def ids_of_feed(db: Database, feed: str, after: str, limit: int) -> list[str]:
    rows = await db.fetch_all(
        "SELECT id FROM advisories WHERE feed = :feed AND id > :after ORDER BY id LIMIT :limit",
        feed=feed,
        after=after,
        limit=limit,
    )
    return [row["id"] for row in rows]


async def count_of(db: Database, ecosystem: str) -> int:
    """How many are about the ecosystem, whichever feed brought them."""
    # Not a point read: of a large feed it takes a while.
    (row,) = await db.fetch_all(
        "SELECT COUNT(DISTINCT advisory_id) AS number FROM advisory_packages"
        " WHERE ecosystem = :ecosystem",
        ecosystem=ecosystem,
    )
    return int(row["number"])


async def advisories_for(db: Database, ecosystem: str, names: Collection[str]) -> list[Advisory]:
    """All that are about these packages, and those that are about the same faults."""
    rows = await db.fetch_all(
        "SELECT id, data FROM advisories WHERE id IN (SELECT advisory_id FROM advisory_packages"
        " WHERE ecosystem = :ecosystem AND name IN (SELECT value FROM each(:names)))",
        ecosystem=ecosystem,
        names=sorted(names),
    )
    found = {row["id"]: _decode(row["data"]) for row in rows}
    fresh: Collection[str] = list(found)
    for _ in range(_STEPS):
        if not fresh:
            break
        relatives = await _relatives(db, fresh)
        fresh = [one.id for one in relatives if one.id not in found]
        found.update({one.id: one for one in relatives})
    return list(found.values())


async def load_relatives(db: Database, advisories: Sequence[Advisory]) -> dict[str, list[Advisory]]:
    """By identifier: the advisories that share a name with it, itself among them."""
    found = await _relatives(db, [one.id for one in advisories])
    by_name: dict[str, list[Advisory]] = defaultdict(list)
    for one in found:
        for name in one.names:
            by_name[name].append(one)
    return {
        one.id: list({other.id: other for name in one.names for other in by_name[name]}.values())
        for one in advisories
    }


async def search(
    db: Database, text: str, *, ecosystem: str | None = None, limit: int = 100
) -> list[Advisory]:
    """By identifier, by alias, by package, or by words of the summary; the best first."""
    wanted = text.strip()
    found: dict[str, Advisory] = {}
    exact = await db.fetch_all(
        "SELECT id, data FROM advisories WHERE id IN (SELECT advisory_id FROM advisory_names"
        " WHERE name IN (SELECT value FROM each(:names))) OR id IN (SELECT advisory_id"
        " FROM advisory_packages WHERE name IN (SELECT value FROM each(:packages))) ORDER BY id",
        names=_spellings(wanted),
        packages=sorted({wanted, wanted.lower(), package_name("PyPI", wanted)}),
    )
    for row in exact:
        found[row["id"]] = _decode(row["data"])
    found = {id_: one for id_, one in found.items() if _is_about(one, ecosystem)}
    if len(found) < limit:
        async for one in _by_words(db, wanted.lower()):
            if _is_about(one, ecosystem):
                found.setdefault(one.id, one)
            if len(found) >= limit:
                break
    return list(found.values())[:limit]


async def _by_words(db: Database, words: str) -> AsyncIterator[Advisory]:
    after = ""
    while rows := await db.fetch_all(
        "SELECT id, data FROM advisories WHERE id > :after AND lower(data) LIKE :pattern"
        " ESCAPE '!' ORDER BY id LIMIT :limit",
        after=after,
        pattern=contains_pattern(words),
        limit=_SEARCHED_AT_ONCE,
    ):
        for row in rows:
            one = _decode(row["data"])
            # The column has more than what people look for: names of fields, versions.
            if any(words in text.lower() for text in _texts(one)):
                yield one
        after = rows[-1]["id"]


def _texts(advisory: Advisory) -> Iterator[str]:
    yield from (advisory.id, advisory.summary, *advisory.aliases)
    yield from (package.name for package in advisory.affected)


def _is_about(advisory: Advisory, ecosystem: str | None) -> bool:
    return ecosystem is None or any(one.ecosystem == ecosystem for one in advisory.affected)


def _spellings(identifier: str) -> list[str]:
    """Identifiers are mostly upper case; those of GitHub go on in lower case."""
    upper = identifier.upper()
    github = upper[:5] + identifier[5:].lower() if upper.startswith("GHSA-") else upper
    return sorted({identifier, upper, github})


def _packages(advisory: Advisory) -> Iterator[tuple[str, str]]:
    for one in advisory.affected:
        if len(one.name) <= _MAX_NAME_LENGTH and "\0" not in one.name:
            yield one.ecosystem, one.name


async def _relatives(db: Database, ids: Collection[str]) -> list[Advisory]:
    rows = await db.fetch_all(
        "SELECT data FROM advisories WHERE id IN (SELECT other.advisory_id FROM advisory_names own"
        " JOIN advisory_names other ON other.name = own.name"
        " WHERE own.advisory_id IN (SELECT value FROM each(:ids)))",
        ids=sorted(ids),
    )
    return [_decode(row["data"]) for row in rows]


async def _forget_details(tx: Transaction, ids: Collection[str]) -> set[str]:
    given = sorted(ids)
    rows = await tx.fetch_all(
        "SELECT DISTINCT ecosystem FROM advisory_packages"
        " WHERE advisory_id IN (SELECT value FROM each(:ids))",
        ids=given,
    )
    for table in ("advisory_packages", "advisory_names"):
        await tx.execute(
            f"DELETE FROM {table} WHERE advisory_id IN (SELECT value FROM each(:ids))", ids=given
        )
    return {row["ecosystem"] for row in rows}
