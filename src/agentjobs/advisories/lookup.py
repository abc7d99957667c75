"""All that is known of one vulnerability, by any of its names: for those who read about it.

Knows nothing of who is affected.
"""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.advisories.groups import AdvisoryGroup, group_advisories
from agentjobs.advisories.matching import describe_affected, fixed_versions
from agentjobs.advisories.model import Advisory
from agentjobs.advisories.rows import load_relatives
from agentjobs.store.database import Database

_MAX_PACKAGES = 200
_MAX_RANGES_LENGTH = 600
_MAX_FIXED = 20

_decode = msgspec.json.Decoder(Advisory).decode


class AffectedPackage(msgspec.Struct, frozen=True):
    """What one record, `source_id`, says of a package; `ranges` is for reading."""

    ecosystem: str
    name: str
    ranges: str
    fixed: tuple[str, ...]
    source_id: str


class Vulnerability(msgspec.Struct, frozen=True):
    """`left_out` is how many packages are not listed."""

    group: AdvisoryGroup
    packages: tuple[AffectedPackage, ...]
    left_out: int

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.group.id, *self.group.aliases))


async def find_vulnerability(db: Database, name: str) -> Vulnerability | None:
    """`name` is the identifier or an alias of a record, as it is written there."""
    rows = await db.fetch_all(
        "SELECT data FROM advisories"
        " WHERE id IN (SELECT advisory_id FROM advisory_names WHERE name = :name)",
        name=name,
    )
    if not rows:
        return None
    records = [_decode(row["data"]) for row in rows]
    related = await load_relatives(db, records)
    everyone = {one.id: one for near in related.values() for one in near}
    # Rating a vulnerability for the first time takes a while.
    return await asyncio.to_thread(_build_vulnerability, name, list(everyone.values()))


def _build_vulnerability(name: str, records: Sequence[Advisory]) -> Vulnerability:
    groups = group_advisories(records)
    group = next(one for one in groups if name in (one.id, *one.aliases))
    packages = list(_packages(group.members))
    return Vulnerability(
        group, tuple(packages[:_MAX_PACKAGES]), max(len(packages) - _MAX_PACKAGES, 0)
    )


def _packages(records: Iterable[Advisory]) -> Iterable[AffectedPackage]:
    for record in records:
        for ecosystem, name in dict.fromkeys((one.ecosystem, one.name) for one in record.affected):
            ranges = describe_affected(record, ecosystem, name, _MAX_RANGES_LENGTH)
            fixed = fixed_versions(record, ecosystem, name)[:_MAX_FIXED]
            yield AffectedPackage(ecosystem, name, ranges, fixed, record.id)
