"""Groups records of several databases about the same vulnerability."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs_dependencies.advisories.model import Advisory
from agentjobs_dependencies.advisories.severity import Severity, find_severity


class AdvisoryGroup(msgspec.Struct, frozen=True):
    """`id` represents the group; `aliases` are all other names of the vulnerability, sorted."""

    id: str
    members: tuple[Advisory, ...]
    aliases: tuple[str, ...]
    severity: Severity
    summary: str


def group_advisories(
    advisories: Iterable[Advisory], relatives: Iterable[Advisory] = ()
) -> list[AdvisoryGroup]:
    """Groups of records that share a name, directly or indirectly, sorted by id.

    `relatives` do not become members, but contribute connections, names and severities: the record
    with the severity is often about another package or from another database.
    """
    members = {advisory.id: advisory for advisory in advisories}
    all_records = {advisory.id: advisory for advisory in relatives} | members
    groups = (
        _group([a for a in related if a.id in members], related)
        for related in _group_aliases(all_records.values())
        if any(advisory.id in members for advisory in related)
    )
    return sorted(groups, key=lambda group: group.id)


def _group(members: list[Advisory], related: list[Advisory]) -> AdvisoryGroup:
    members.sort(key=_precedence)
    first = members[0]
    names = {name for advisory in related for name in (advisory.id, *advisory.aliases)}
    names.discard(first.id)
    summaries = [advisory.summary for advisory in (*members, *related) if advisory.summary]
    return AdvisoryGroup(
        id=first.id,
        members=tuple(members),
        aliases=tuple(sorted(names)),
        severity=find_severity(first, related),
        summary=summaries[0] if summaries else "",
    )


def _precedence(advisory: Advisory) -> tuple[bool, str]:
    # Most vulnerabilities have a record of GitHub, which has a severity.
    return (not advisory.id.startswith("GHSA-"), advisory.id)


def _group_aliases(advisories: Iterable[Advisory]) -> Sequence[list[Advisory]]:
    """Equivalence classes of records that share names."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    records = list(advisories)
    names = [name for advisory in records for name in (advisory.id, *advisory.aliases)]
    if len(records) == 1 or len(set(names)) == len(names):
        # The usual case: one record for each vulnerability.
        return [[advisory] for advisory in records]
    for advisory in records:
        for alias in advisory.aliases:
            leader[find(alias)] = find(advisory.id)
    classes: dict[str, list[Advisory]] = defaultdict(list)
    for advisory in records:
        classes[find(advisory.id)].append(advisory)
    return list(classes.values())
