"""Parsing of OSV records."""

import json
from typing import Any

import pytest

from agentjobs_dependencies.advisories.model import (
    Affected,
    AffectedRange,
    BadAdvisory,
    Event,
    Rating,
    package_name,
    parse_advisory,
)
from tests.support.recorded_advisories import RECORDS, every_advisory

RANGE = {"type": "ECOSYSTEM", "events": [{"introduced": "1.0"}, {"fixed": "2.0"}]}


def record(**changes: Any) -> dict[str, Any]:
    affected = {"package": {"ecosystem": "PyPI", "name": "Some_Thing"}, "ranges": [RANGE]}
    return {"id": "X-1", "modified": "2026-01-01T00:00:00Z", "affected": [affected], **changes}


def one_affected(**changes: Any) -> Affected | None:
    affected = {"package": {"ecosystem": "npm", "name": "thing"}, "ranges": [RANGE], **changes}
    advisory = parse_advisory(record(affected=[affected]))
    return advisory.affected[0] if advisory else None


def test_a_record_is_reduced_to_the_fields_for_matching() -> None:
    advisory = parse_advisory(
        json.dumps(
            record(
                aliases=["CVE-1", "X-1", "not an <identifier>"],
                published="2025-01-01T00:00:00Z",
                summary=" A  fault\nsomewhere ",
                severity=[
                    {"type": "CVSS_V3", "score": "CVSS:3.1/…"},
                    {"type": "Own", "score": "9"},
                ],
                database_specific={"severity": "HIGH", "cwe_ids": ["CWE-1"]},
                references=[{"type": "WEB", "url": "https://example.com"}],
            )
        ).encode()
    )
    assert advisory is not None
    assert (advisory.id, advisory.aliases, advisory.names) == ("X-1", ("CVE-1",), {"X-1", "CVE-1"})
    assert (advisory.summary, advisory.label) == ("A fault somewhere", "HIGH")
    assert advisory.ratings == (Rating("CVSS_V3", "CVSS:3.1/…"),)
    assert advisory.url == "https://example.com"
    events = (Event("introduced", "1.0"), Event("fixed", "2.0"))
    assert advisory.affected == (
        Affected("PyPI", "some-thing", (AffectedRange("ECOSYSTEM", events),)),
    )


def test_the_first_line_of_the_details_replaces_a_missing_summary() -> None:
    advisory = parse_advisory(record(details="\n" + "words " * 400 + "\nmore"))
    assert advisory is not None
    assert advisory.summary.startswith("words words")
    assert advisory.summary.endswith("…")
    assert len(advisory.summary) == 2_000


def test_a_link_leads_only_to_a_page_that_exists() -> None:
    def url_of(**fields: Any) -> str:
        advisory = parse_advisory(record(**fields))
        assert advisory is not None
        return advisory.url

    web = {"type": "WEB", "url": "https://example.com/a"}
    advisory = {"type": "ADVISORY", "url": "https://example.com/b"}
    assert url_of(id="PYSEC-2024-1") == "https://osv.dev/vulnerability/PYSEC-2024-1"
    assert url_of(id="ACME-2024-1") == ""
    assert url_of(id="ACME-2024-1", references=[web, advisory]) == "https://example.com/b"
    for junk in ("x", [1], [{"url": 1}], [{"type": "WEB", "url": "javascript:alert(1)"}]):
        assert url_of(id="ACME-2024-1", references=junk) == ""


def test_a_rating_may_belong_to_the_package() -> None:
    severity = [{"type": "CVSS_V4", "score": "CVSS:4.0/…"}]
    affected = {"package": {"ecosystem": "npm", "name": "a"}, "ranges": [RANGE]}
    advisory = parse_advisory(record(affected=[{**affected, "severity": severity}]))
    assert advisory is not None
    assert advisory.ratings == (Rating("CVSS_V4", "CVSS:4.0/…"),)


@pytest.mark.parametrize(
    "changes",
    [
        {"withdrawn": "2026-01-02T00:00:00Z"},
        {"affected": []},
        {"affected": None},
        {"affected": [{"ranges": [RANGE]}]},
        {"affected": [{"package": {"ecosystem": "Debian:12", "name": "a"}, "ranges": [RANGE]}]},
        {"affected": [{"package": {"ecosystem": "npm", "name": "a"}}]},
        {
            "affected": [
                {
                    "package": {"ecosystem": "npm", "name": "a"},
                    "ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}],
                }
            ]
        },
    ],
)
def test_a_record_with_nothing_to_match_is_left_out(changes: dict[str, Any]) -> None:
    assert parse_advisory(record(**changes)) is None


def test_an_informational_record_is_left_out() -> None:
    unmaintained = (RECORDS / "crates.io" / "RUSTSEC-2021-0139.json").read_bytes()
    assert parse_advisory(unmaintained) is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", "not a valid OSV record"),
        (b"[]", "Expected `object`"),
        (b'{"id": "X-1"}', "missing required field `modified`"),
        (b'{"id": "\xff", "modified": ""}', "utf-8"),
        (b'{"id": "X-1", "modified": "", "more": ' + b"[" * 100_000, "nested too deeply"),
        (record(id="../../etc/passwd"), "invalid id"),
        (record(id=7), r"Expected `str`, got `int` - at `\$\.id`"),
        (record(affected=[{"package": "a"}]), r"at `\$\.affected\[0\]\.package`"),
        (record(affected=[{"ranges": [{"type": "SEMVER", "events": 1}]}]), "Expected `array`"),
    ],
)
def test_an_invalid_record_is_rejected_with_the_reason(bad: Any, reason: str) -> None:
    with pytest.raises(BadAdvisory, match=reason):
        parse_advisory(bad)


def test_another_registry_of_an_ecosystem_has_the_same_rules() -> None:
    package = {"ecosystem": "Packagist:https://packages.example/8", "name": "Drupal/Core"}
    affected = one_affected(package=package)
    assert affected is not None
    assert (affected.ecosystem, affected.name) == ("Packagist", "drupal/core")


@pytest.mark.parametrize(
    ("last_known", "event"),
    [
        ("< 1.5", Event("limit", "1.5")),
        ("<= 1.5", Event("last_affected", "1.5")),
        (">= 1.0, < 1.5", None),
        (7, None),
    ],
)
def test_githubs_end_of_a_range_is_used(last_known: object, event: Event | None) -> None:
    affected = one_affected(database_specific={"last_known_affected_version_range": last_known})
    assert affected is not None
    extra = affected.ranges[0].events[2:]
    assert extra == ((event,) if event else ())


def test_an_unlimited_limit_is_ignored() -> None:
    events = [{"introduced": "0"}, {"limit": "*"}]
    affected = one_affected(ranges=[{"type": "SEMVER", "events": events}])
    assert affected is not None
    assert affected.ranges[0].events == (Event("introduced", "0"),)


def test_of_listed_versions_only_those_outside_the_ranges_are_kept() -> None:
    affected = one_affected(versions=["1.0.0", "1.9.9", "2.0.0", "0.1.0", "nightly"])
    assert affected is not None
    assert affected.versions == ("2.0.0", "0.1.0", "nightly")


@pytest.mark.parametrize(
    ("ecosystem", "name", "spelled"),
    [
        ("PyPI", "Zope.Interface__x", "zope-interface-x"),
        ("Packagist", "Symfony/Yaml", "symfony/yaml"),
        ("npm", "JSONStream", "JSONStream"),
        ("Go", "github.com/BurntSushi/toml", "github.com/BurntSushi/toml"),
    ],
)
def test_names_are_normalized(ecosystem: str, name: str, spelled: str) -> None:
    assert package_name(ecosystem, name) == spelled


def test_the_recorded_advisories_contain_no_prose() -> None:
    assert len(every_advisory()) + 1 == len(list(RECORDS.glob("*/*.json")))
    for path in RECORDS.glob("*/*.json"):
        kept = json.loads(path.read_bytes())
        assert kept["id"] == path.stem
        assert not kept.keys() & {"summary", "details", "references", "credits"}


def test_many_ranges_and_versions_are_compared_in_bounded_time() -> None:
    ends = [[{"introduced": str(2 * n)}, {"fixed": str(2 * n + 1)}] for n in range(20_000)]
    affected = {
        "package": {"ecosystem": "PyPI", "name": "shelf"},
        "ranges": [{"type": "ECOSYSTEM", "events": [event for pair in ends for event in pair]}],
        "versions": [f"{2 * n}.5" for n in range(20_000)],
    }
    record = {"id": "A-1", "modified": "2024-01-01T00:00:00Z", "affected": [affected]}
    advisory = parse_advisory(json.dumps(record).encode())
    assert advisory is not None
    assert len(advisory.affected[0].versions) == 20_000
