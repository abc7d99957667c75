"""Looks up a vulnerability by any of its names, for its page. Does not know who is affected."""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.advisories.rows import load_relatives, load_texts
from agentjobs.store.database import Database
from agentjobs_dependencies.advisories.groups import AdvisoryGroup, group_advisories
from agentjobs_dependencies.advisories.matching import describe_affected, fixed_versions
from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.advisories.texts import AdvisoryText, merge_texts

_MAX_PACKAGES = 200
_MAX_RANGES_LENGTH = 600
_MAX_FIXED = 20

_decode = msgspec.json.Decoder(Advisory).decode


class AffectedPackage(msgspec.Struct, frozen=True):
    """A package according to the record `source_id`; `ranges` is text."""

    ecosystem: str
    name: str
    ranges: str
    fixed: tuple[str, ...]
    source_id: str


class Vulnerability(msgspec.Struct, frozen=True):
    """`omitted_packages` is the number of packages that are not listed."""

    group: AdvisoryGroup
    packages: tuple[AffectedPackage, ...]
    omitted_packages: int
    text: AdvisoryText = AdvisoryText()

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.group.id, *self.group.aliases))


async def find_vulnerability(db: Database, name: str) -> Vulnerability | None:
    """`name` is the exact id or alias of a record."""
    rows = await db.fetch_all(
        "SELECT data FROM advisories"
        " WHERE id IN (SELECT advisory_id FROM advisory_names WHERE name = :name)",
        name=name,
    )
    if not rows:
        return None
    records = [_decode(row["data"]) for row in rows]
    related = await load_relatives(db, records)
    records_by_id = {record.id: record for group in related.values() for record in group}
    # Parsing CVSS vectors for the first time is slow.
    vulnerability = await asyncio.to_thread(
        _build_vulnerability, name, list(records_by_id.values())
    )
    texts = await load_texts(db, [record.id for record in vulnerability.group.members])
    return msgspec.structs.replace(vulnerability, text=merge_texts(texts))


def _build_vulnerability(name: str, records: Sequence[Advisory]) -> Vulnerability:
    groups = group_advisories(records)
    group = next(group for group in groups if name in (group.id, *group.aliases))
    packages = list(_packages(group.members))
    return Vulnerability(
        group, tuple(packages[:_MAX_PACKAGES]), max(len(packages) - _MAX_PACKAGES, 0)
    )


def _packages(records: Iterable[Advisory]) -> Iterable[AffectedPackage]:
    for record in records:
        for ecosystem, name in dict.fromkeys(
            (item.ecosystem, item.name) for item in record.affected
        ):
            ranges = describe_affected(record, ecosystem, name, _MAX_RANGES_LENGTH)
            fixed = fixed_versions(record, ecosystem, name)[:_MAX_FIXED]
            yield AffectedPackage(ecosystem, name, ranges, fixed, record.id)
