"""Versions of real packages matched with their real advisories."""

import pytest

from agentjobs_dependencies.advisories.matching import (
    affects,
    by_package,
    describe_affected,
    fixed_versions,
)
from agentjobs_dependencies.advisories.model import Advisory, Affected, AffectedRange, Event
from tests.support.recorded_advisories import about, every_advisory, recorded

LOG4J = "org.apache.logging.log4j:log4j-core"
SPRING = "org.springframework:spring-beans"
JWT = "github.com/dgrijalva/jwt-go"
YAML_FIX = "v3.0.0-20220521103104-8f96da9f5d5e"

# A package, its affected versions and its unaffected versions.
REAL_CASES = [
    ("PyPI", "requests", "2.3.0 2.30.0", "2.2.1 2.31.0 2.31.0.post1"),
    ("PyPI", "urllib3", "0.2 1.26.0 1.26.16 2.0.0 2.0.5", "1.26.17 1.26.18 2.0.6 2.1.0"),
    ("PyPI", "django", "3.2 3.2.13 4.0 4.0.5", "3.1.14 3.2.14 4.0.6 4.1"),
    ("PyPI", "pyyaml", "3.13 5.3 5.3.1 5.4b2", "5.4 6.0"),
    ("npm", "lodash", "4.17.4 4.17.11 4.17.20", "4.17.21"),
    ("npm", "lodash.trim", "4.5.1", "4.5.2"),
    ("npm", "minimist", "0.0.8 0.2.3 1.0.0 1.2.5", "0.2.4 1.2.6"),
    ("Go", "golang.org/x/text", "v0.3.0 v0.3.7 0.3.7", "v0.3.8 v0.4.0"),
    ("Go", "gopkg.in/yaml.v3", "v3.0.0-20200313102051-9f266ea9e77c", f"{YAML_FIX} v3.0.0 v3.0.1"),
    ("Go", JWT, "v3.2.0+incompatible v1.0.2", ""),
    ("Go", f"{JWT}/v4", "v4.0.0-0.20150101000000-000000000000", "v4.0.0-preview1"),
    ("crates.io", "time", "0.1.45 0.2.7 0.2.22", "0.2.0 0.2.3 0.2.6 0.2.23 0.3.36"),
    ("crates.io", "ansi_term", "", "0.12.1"),
    ("Maven", LOG4J, "2.0-beta9 2.3 2.12.1 2.14.1 2.15.0 2.16.0", "2.12.3 2.17.0"),
    ("Maven", SPRING, "4.3.30.RELEASE 5.2.19.RELEASE 5.3.0 5.3.17", "5.2.20.RELEASE 5.3.18"),
    (
        "RubyGems",
        "activerecord",
        "5.2.8 6.0.5 6.1.0 6.1.6 7.0.3",
        "5.2.8.1 6.0.5.1 6.1.6.1 7.0.3.1",
    ),
    ("Packagist", "guzzlehttp/psr7", "1.9.0 2.0.0 2.4.4", "1.9.1 2.4.5"),
]


@pytest.mark.parametrize(("ecosystem", "name", "hit", "spared"), REAL_CASES)
def test_real_advisories_match_the_affected_versions(
    ecosystem: str, name: str, hit: str, spared: str
) -> None:
    def is_hit(version: str) -> bool:
        return any(
            affects(advisory, ecosystem, name, version) for advisory in about(ecosystem, name)
        )

    assert [version for version in hit.split() if not is_hit(version)] == []
    assert [version for version in spared.split() if is_hit(version)] == []


def test_a_fixed_version_may_have_another_vulnerability() -> None:
    first, second = recorded("PYSEC-2020-96"), recorded("PYSEC-2021-142")
    assert fixed_versions(first, "PyPI", "pyyaml") == ("5.3.1",)
    assert not affects(first, "PyPI", "pyyaml", "5.3.1")
    assert affects(second, "PyPI", "pyyaml", "5.3.1")
    assert not affects(recorded("GHSA-jfh8-c2jp-5v3q"), "Maven", LOG4J, "2.15.0")
    assert affects(recorded("GHSA-7rjr-3q55-vv33"), "Maven", LOG4J, "2.15.0")


@pytest.mark.parametrize(
    ("advisory", "ecosystem", "name", "versions", "description"),
    [
        (
            "PYSEC-2023-192",
            "PyPI",
            "urllib3",
            ("1.26.17", "2.0.6"),
            "< 1.26.17 or >= 2.0.0, < 2.0.6",
        ),
        ("GO-2020-0017", "Go", JWT, (), ">= 0.0.0-20150717181359-44718f8a89b0"),
        ("GHSA-29mw-wpgm-hmr9", "npm", "lodash.trim", (), "<= 4.5.1"),
        (
            "GHSA-wcg3-cvx6-7396",
            "crates.io",
            "time",
            ("0.2.23",),
            ">= 0.1.0, < 0.2.0 or >= 0.2.7, < 0.2.23",
        ),
        ("GHSA-29mw-wpgm-hmr9", "npm", "another", (), ""),
    ],
)
def test_fixes_and_ranges_are_sorted(
    advisory: str, ecosystem: str, name: str, versions: tuple[str, ...], description: str
) -> None:
    assert fixed_versions(recorded(advisory), ecosystem, name) == versions
    assert describe_affected(recorded(advisory), ecosystem, name) == description


def npm(*ranges: str, versions: tuple[str, ...] = ()) -> Advisory:
    """Events are written as `introduced 1.0, fixed 2.0`."""
    read = tuple(
        AffectedRange("SEMVER", tuple(Event(*event.split()) for event in text.split(", ")))  # type: ignore[arg-type]
        for text in ranges
    )
    return Advisory("X-1", "", (Affected("npm", "thing", read, versions),))


def hits(advisory: Advisory, versions: str) -> str:
    return " ".join(v for v in versions.split() if affects(advisory, "npm", "thing", v))


@pytest.mark.parametrize(
    ("advisory", "hit"),
    [
        (npm("introduced 0"), "0.0.0-a 1.0.0 1.5.0 2.0.0 3.0.0 what"),
        (npm("introduced 1.0.0"), "1.0.0 1.5.0 2.0.0 3.0.0"),
        (npm("fixed 2.0.0, introduced 1.0.0"), "1.0.0 1.5.0"),
        (npm("introduced 0, last_affected 1.5.0"), "0.0.0-a 1.0.0 1.5.0"),
        (npm("introduced 0, introduced 1.0.0, fixed 1.5.0"), "0.0.0-a 1.0.0"),
        (npm("introduced 0, fixed 1.0.0, introduced 1.0.0, fixed 2.0.0"), "0.0.0-a 1.0.0 1.5.0"),
        (npm("introduced 2.0.0, last_affected 2.0.0"), "2.0.0"),
        (npm("last_affected 2.0.0, introduced 2.0.0"), "2.0.0"),
        (npm("introduced 2.0.0, fixed 2.0.0"), ""),
        (npm("fixed 2.0.0"), ""),
        (npm("introduced 1.0.0, limit 2.0.0"), "1.0.0 1.5.0"),
        (npm("introduced 0, fixed 3.0.0, limit 1.5.0, limit 1.0.0"), "0.0.0-a 1.0.0"),
        (npm("introduced 0, fixed 1.0.0, introduced 2.0.0, limit 2.0.0"), "0.0.0-a"),
        # Without its end, the range would affect every later version.
        (npm("introduced 1.0.0, fixed never"), ""),
        (npm("introduced 1.0.0, limit nowhere"), ""),
        (npm("introduced 1.0.0, fixed never", versions=("1.5.0",)), "1.5.0"),
        (npm("introduced 1.0.0, fixed never", "introduced 0, fixed 1.0.0"), "0.0.0-a"),
        (npm("introduced someday, fixed 2.0.0"), ""),
        (npm("introduced 3.0.0", "introduced 0, fixed 1.0.0"), "0.0.0-a 3.0.0"),
        (npm(versions=("v1.5", "3.0.0", "what")), "1.5.0 3.0.0 what"),
        (npm("introduced 0, fixed 1.0.0", versions=("2.0.0",)), "0.0.0-a 2.0.0"),
    ],
)
def test_events_in_any_order_are_converted_to_ranges(advisory: Advisory, hit: str) -> None:
    assert hits(advisory, "0.0.0-a 1.0.0 1.5.0 2.0.0 3.0.0 what") == hit


def test_an_advisory_affects_only_its_packages() -> None:
    advisory = npm("introduced 0")
    assert not affects(advisory, "npm", "things", "1.0.0")
    assert not affects(advisory, "crates.io", "thing", "1.0.0")


def test_each_advisory_of_a_package_is_listed_once() -> None:
    asked_for = {("npm", "minimist"), ("npm", "lodash.trim")}
    advisories = by_package(every_advisory(), asked_for)
    assert advisories.keys() == asked_for
    assert [advisory.id for advisory in advisories["npm", "minimist"]] == [
        "GHSA-vh95-rmgr-6w4m",
        "GHSA-xvch-5gv4-984h",
    ]
    assert [advisory.id for advisory in advisories["npm", "lodash.trim"]] == ["GHSA-29mw-wpgm-hmr9"]


def test_listed_versions_follow_ranges() -> None:
    advisory = npm("introduced 0, fixed 1.0.0", versions=("2.0.0",))
    assert describe_affected(advisory, "npm", "thing") == "< 1.0.0 or 2.0.0"
    assert describe_affected(npm("introduced 0"), "npm", "thing") == "all versions"
