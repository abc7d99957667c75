"""Whether a proposed commit ends what it was made to end: its own files tell, never the agent."""

import re
from collections.abc import Collection, Iterable, Iterator

from agentjobs.advisories.exposure import Finding
from agentjobs.advisories.versions import version_key
from agentjobs.inventory.model import Dependency
from agentjobs.jobs.run.exposure import Exposure, Place, place_of
from agentjobs.jobs.run.fix_plan import Fix
from agentjobs.jobs.run.outcomes import Stopped

_MOST_TOLD = 5
_NUMBER = re.compile(r"\d+")


def recheck(fixes: Iterable[Fix], before: Exposure, after: Exposure) -> None:
    """Raises Stopped with what is still wrong."""
    faults = list(dict.fromkeys(faults_in(fixes, before, after)))
    if not faults:
        return
    told = " ".join(faults[:_MOST_TOLD])
    more = f" And {len(faults) - _MOST_TOLD} more." if len(faults) > _MOST_TOLD else ""
    raise Stopped("still_vulnerable", f"{told}{more}")


def faults_in(fixes: Iterable[Fix], before: Exposure, after: Exposure) -> Iterator[str]:
    mended: dict[Place, set[str]] = {}
    for fix in fixes:
        mended.setdefault(fix.place, set()).add(fix.old)
        yield from _lost(fix, before, after)
        yield from _downgrades(fix, before, after)
    found: dict[Place, list[Finding]] = {}
    for finding in after.findings:
        found.setdefault(place_of(finding), []).append(finding)
    for place, versions in mended.items():
        yield from _still_there(found.get(place, []), versions, before.at(place), after.at(place))
    yield from _brought_in(mended.keys(), before, after)


def _still_there(
    found: list[Finding], mended: set[str], before: list[Dependency], after: list[Dependency]
) -> Iterator[str]:
    """Another version of the package that stood there too is another fix's matter, as long as it
    is not all that is left."""
    others = {one.version for one in before} - mended
    is_all = {one.version for one in after} <= {one.version for one in found}
    for finding in found:
        if is_all or finding.version not in others:
            yield f"{_named(finding)} is still vulnerable ({finding.advisory_id})."


def _lost(fix: Fix, before: Exposure, after: Exposure) -> Iterator[str]:
    """What a file does not say any more, it does not prove either."""
    known = {_without_numbers(one.reason) for one in before.warnings if one.path == fix.manifest}
    for one in after.warnings:
        if one.path == fix.manifest and _without_numbers(one.reason) not in known:
            yield f"{fix.manifest} cannot be read any more: {one.reason}"
            return
    if not any(one.version for one in after.at(fix.place)):
        yield f"{fix.manifest} does not name a version of {fix.package} any more."


def _without_numbers(reason: str) -> str:
    """An edit moves lines; what is wrong with them stays the same."""
    return _NUMBER.sub("", reason)


def _downgrades(fix: Fix, before: Exposure, after: Exposure) -> Iterator[str]:
    known = {one.version for one in before.at(fix.place)}
    old = version_key(fix.ecosystem, fix.old)
    for version in sorted({one.version or "" for one in after.at(fix.place)} - {"", *known}):
        now = version_key(fix.ecosystem, version)
        if now is None or old is None or now < old:
            yield f"{fix.package} went from {fix.old} to {version} in {fix.manifest}."
    if None not in known and any(one.version is None for one in after.at(fix.place)):
        yield f"{fix.package} went from {fix.old} to no fixed version in {fix.manifest}."


def _brought_in(mended: Collection[Place], before: Exposure, after: Exposure) -> Iterator[str]:
    """An upgrade may bring what it depends on in a version that is vulnerable itself. In any file:
    nothing but this change lies between the two."""
    known = {(place_of(one), one.advisory_id) for one in before.findings}
    # What stood there all the time was not brought in, though an advisory may be new.
    was_there = {(place_of(one), one.version) for one in before.dependencies}
    for finding in after.findings:
        place = place_of(finding)
        is_known = (place, finding.advisory_id) in known or (place, finding.version) in was_there
        if place not in mended and not is_known:
            yield f"The change brings in {_named(finding)}, which {finding.advisory_id} is about."


def _named(finding: Finding) -> str:
    return f"{finding.name} {finding.version} in {finding.manifest}"
