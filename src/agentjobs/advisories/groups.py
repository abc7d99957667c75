"""Records of several databases that are about one fault: a finding is made of such a group."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from agentjobs.advisories.model import Advisory
from agentjobs.advisories.severity import Severity, severity_of


class AdvisoryGroup(msgspec.Struct, frozen=True):
    """`id` speaks for the group; `aliases` are all other names of the fault, in order."""

    id: str
    members: tuple[Advisory, ...]
    aliases: tuple[str, ...]
    severity: Severity
    summary: str


def group_advisories(
    advisories: Iterable[Advisory], relatives: Iterable[Advisory] = ()
) -> list[AdvisoryGroup]:
    """Groups of those that share a name, also through a third; in the order of their ids.

    `relatives` are no members, but they connect, name and rate: the record with the severity is
    often one of another package or database.
    """
    members = {advisory.id: advisory for advisory in advisories}
    everyone = {advisory.id: advisory for advisory in relatives} | members
    groups = (
        _group([a for a in related if a.id in members], related)
        for related in _related(everyone.values())
        if any(advisory.id in members for advisory in related)
    )
    return sorted(groups, key=lambda group: group.id)


def _group(members: list[Advisory], related: list[Advisory]) -> AdvisoryGroup:
    members.sort(key=_precedence)
    first = members[0]
    names = {name for advisory in related for name in (advisory.id, *advisory.aliases)}
    names.discard(first.id)
    spoken = [advisory.summary for advisory in (*members, *related) if advisory.summary]
    return AdvisoryGroup(
        id=first.id,
        members=tuple(members),
        aliases=tuple(sorted(names)),
        severity=severity_of(first, related),
        summary=spoken[0] if spoken else "",
    )


def _precedence(advisory: Advisory) -> tuple[bool, str]:
    # GitHub's record exists for most faults of every ecosystem, and it is the one that is rated.
    return (not advisory.id.startswith("GHSA-"), advisory.id)


def _related(advisories: Iterable[Advisory]) -> Sequence[list[Advisory]]:
    """The classes of the relation "shares a name with"."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = name = leader[leader[name]]
        return name

    found = list(advisories)
    names = [name for advisory in found for name in (advisory.id, *advisory.aliases)]
    if len(found) == 1 or len(set(names)) == len(names):
        # Most packages: a record for each fault.
        return [[advisory] for advisory in found]
    for advisory in found:
        for alias in advisory.aliases:
            leader[find(alias)] = find(advisory.id)
    classes: dict[str, list[Advisory]] = defaultdict(list)
    for advisory in found:
        classes[find(advisory.id)].append(advisory)
    return list(classes.values())
