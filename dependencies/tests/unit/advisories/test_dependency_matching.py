"""Matching dependencies with advisories: one finding per vulnerability."""

from typing import Any

from agentjobs_dependencies.advisories.dependency_matching import Finding, match_dependencies
from agentjobs_dependencies.advisories.model import Advisory, parse_advisory
from agentjobs_dependencies.model import Dependency
from tests.support.osv_records import CVSS_HIGH, record


def advisories(*records: dict[str, Any]) -> list[Advisory]:
    return [advisory for advisory in map(parse_advisory, records) if advisory is not None]


def dependency(
    name: str = "shelf", version: str | None = "1.0", *, direct: bool = True, manifest: str = "a"
) -> Dependency:
    return Dependency("PyPI", name, version, "", direct, "runtime", manifest)


def find_findings(dependencies: list[Dependency], *records: dict[str, Any]) -> list[Finding]:
    return match_dependencies(dependencies, advisories(*records))


def test_indirectly_related_records_are_one_finding() -> None:
    first = record("PYSEC-1", aliases=["CVE-1"])
    second = record("OTHER-2", aliases=["CVE-2"], vector=CVSS_HIGH)
    # A record of another package links the two as aliases.
    third = record("GHSA-3", "elsewhere", aliases=["CVE-1", "CVE-2"])
    (finding,) = find_findings([dependency()], first, second, third)
    assert [advisory.id for advisory in finding.advisories] == ["OTHER-2", "PYSEC-1"]
    assert (finding.advisory_id, finding.severity) == ("OTHER-2", "high")


def test_each_manifest_has_one_finding_per_package() -> None:
    twice = [dependency(direct=False), dependency(), dependency(direct=False)]
    findings = find_findings([*twice, dependency(manifest="b")], record("GHSA-1"))
    assert [(finding.manifest, finding.direct) for finding in findings] == [
        ("a", True),
        ("b", True),
    ]


def test_only_records_that_affect_this_version_are_named() -> None:
    findings = find_findings(
        [dependency(version="1.5")],
        record("GHSA-1", fixed="1.4", aliases=["CVE-1"]),
        record("PYSEC-1", fixed="1.6", aliases=["CVE-1"]),
        record("GHSA-2", fixed="1.1"),
    )
    assert [[advisory.id for advisory in finding.advisories] for finding in findings] == [
        ["PYSEC-1"]
    ]


def test_an_invalid_version_matches_all_versions_and_its_listing() -> None:
    package = {"ecosystem": "PyPI", "name": "shelf"}
    everywhere, listed = record("MAL-1"), record("GHSA-1")
    events = [{"introduced": "0"}]
    everywhere["affected"] = [
        {"package": package, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    ]
    listed["affected"] = [{"package": package, "versions": ["2004d"]}]
    bounded = record("GHSA-2", fixed="9.0")
    findings = find_findings([dependency(version="2004d")], everywhere, listed, bounded)
    assert [finding.advisory_id for finding in findings] == ["GHSA-1", "MAL-1"]


def test_packages_are_matched_by_normalized_name() -> None:
    assert find_findings([dependency("zope-interface")], record("GHSA-1", "Zope.Interface"))
    assert not find_findings([dependency("shelf")], record("GHSA-1", "shelf", ecosystem="npm"))


def test_a_long_text_of_ranges_is_truncated() -> None:
    many = record("GHSA-1")
    many["affected"][0] = {
        "package": {"ecosystem": "PyPI", "name": "shelf"},
        "versions": [f"1.{minor}" for minor in range(1_000)],
    }
    (finding,) = find_findings([dependency()], many)
    assert len(finding.advisories[0].ranges) < 320
    assert finding.advisories[0].ranges.endswith(" or …")
