"""Matching dependencies with advisories: one finding per vulnerability."""

from typing import Any

from agentjobs.advisories.exposure import Finding, match_dependencies
from agentjobs.advisories.model import Advisory, parse_advisory
from agentjobs.inventory.model import Dependency
from tests.support.osv_records import CVSS_HIGH, record


def advisories(*records: dict[str, Any]) -> list[Advisory]:
    return [one for one in map(parse_advisory, records) if one is not None]


def dependency(
    name: str = "shelf", version: str | None = "1.0", *, direct: bool = True, manifest: str = "a"
) -> Dependency:
    return Dependency("PyPI", name, version, "", direct, "runtime", manifest)


def found(dependencies: list[Dependency], *records: dict[str, Any]) -> list[Finding]:
    return match_dependencies(dependencies, advisories(*records))


def test_indirectly_related_records_are_one_finding() -> None:
    first = record("PYSEC-1", aliases=["CVE-1"])
    second = record("OTHER-2", aliases=["CVE-2"], vector=CVSS_HIGH)
    # It is about another package, and yet it says that the two are the same.
    third = record("GHSA-3", "elsewhere", aliases=["CVE-1", "CVE-2"])
    (finding,) = found([dependency()], first, second, third)
    assert [one.id for one in finding.advisories] == ["OTHER-2", "PYSEC-1"]
    assert (finding.advisory_id, finding.severity) == ("OTHER-2", "high")


def test_each_manifest_has_one_finding_per_package() -> None:
    twice = [dependency(direct=False), dependency(), dependency(direct=False)]
    findings = found([*twice, dependency(manifest="b")], record("GHSA-1"))
    assert [(one.manifest, one.direct) for one in findings] == [("a", True), ("b", True)]


def test_only_records_that_affect_this_version_are_named() -> None:
    findings = found(
        [dependency(version="1.5")],
        record("GHSA-1", fixed="1.4", aliases=["CVE-1"]),
        record("PYSEC-1", fixed="1.6", aliases=["CVE-1"]),
        record("GHSA-2", fixed="1.1"),
    )
    assert [[one.id for one in finding.advisories] for finding in findings] == [["PYSEC-1"]]


def test_an_invalid_version_matches_all_versions_and_its_listing() -> None:
    package = {"ecosystem": "PyPI", "name": "shelf"}
    everywhere, listed = record("MAL-1"), record("GHSA-1")
    events = [{"introduced": "0"}]
    everywhere["affected"] = [
        {"package": package, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    ]
    listed["affected"] = [{"package": package, "versions": ["2004d"]}]
    bounded = record("GHSA-2", fixed="9.0")
    findings = found([dependency(version="2004d")], everywhere, listed, bounded)
    assert [one.advisory_id for one in findings] == ["GHSA-1", "MAL-1"]


def test_packages_are_matched_by_normalized_name() -> None:
    assert found([dependency("zope-interface")], record("GHSA-1", "Zope.Interface"))
    assert not found([dependency("shelf")], record("GHSA-1", "shelf", ecosystem="npm"))


def test_a_long_text_of_ranges_is_truncated() -> None:
    many = record("GHSA-1")
    many["affected"][0] = {
        "package": {"ecosystem": "PyPI", "name": "shelf"},
        "versions": [f"1.{minor}" for minor in range(1_000)],
    }
    (finding,) = found([dependency()], many)
    assert len(finding.advisories[0].ranges) < 320
    assert finding.advisories[0].ranges.endswith(" or …")
