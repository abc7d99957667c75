"""The choice of a safe version, with real advisories and recorded version lists."""

import msgspec
import pytest

from agentjobs_dependencies.advisories.model import Advisory, parse_advisory
from agentjobs_dependencies.registries.versions import Published, PublishedVersion
from agentjobs_dependencies.version_choice import Choice, choose_version
from tests.support.recorded_advisories import about
from tests.support.recorded_registries import hashes_of, recorded

X_TEXT, YAML, JWT = "golang.org/x/text", "gopkg.in/yaml.v3", "github.com/dgrijalva/jwt-go"
LOG4J, SPRING = "org.apache.logging.log4j:log4j-core", "org.springframework:spring-beans"
YAML_FIX = "3.0.0-20220521103104-8f96da9f5d5e"
CASES = [
    ("PyPI", "requests", "2.25.0", "2.31.0"),
    ("PyPI", "requests", "2.30.0", "2.31.0"),
    ("PyPI", "urllib3", "1.26.5", "1.26.17"),
    ("PyPI", "urllib3", "2.0.2", "2.0.6"),
    ("PyPI", "django", "3.2.5", "3.2.14"),
    ("PyPI", "django", "4.0.1", "4.0.6"),
    ("PyPI", "pyyaml", "5.3", "5.4"),
    ("npm", "lodash", "4.17.15", "4.17.21"),
    ("npm", "lodash", "3.10.1", "4.17.21"),
    ("npm", "minimist", "0.0.8", "0.2.4"),
    ("npm", "minimist", "1.2.0", "1.2.6"),
    ("Go", X_TEXT, "0.3.2", "0.3.8"),
    ("Go", X_TEXT, "v0.3.7", "v0.3.8"),
    ("Go", YAML, "3.0.0-20210107192922-496545a6307b", YAML_FIX),
    ("Go", YAML, "v3.0.0-20200313102051-9f266ea9e77c", f"v{YAML_FIX}"),
    ("Go", JWT, "3.2.0+incompatible", None),
    ("crates.io", "time", "0.1.44", "0.2.0"),
    ("crates.io", "time", "0.2.3", None),
    ("crates.io", "time", "0.2.7", "0.2.23"),
    ("Maven", LOG4J, "2.14.1", "2.17.0"),
    ("Maven", LOG4J, "2.12.1", "2.12.3"),
    ("Maven", SPRING, "5.2.15.RELEASE", "5.2.20.RELEASE"),
    ("Maven", SPRING, "5.3.12", "5.3.18"),
    ("RubyGems", "activerecord", "6.1.4", "6.1.6.1"),
    ("RubyGems", "activerecord", "7.0.0", "7.0.3.1"),
    ("Packagist", "guzzlehttp/psr7", "1.8.2", "1.9.1"),
    ("Packagist", "guzzlehttp/psr7", "2.2.0", "2.4.5"),
]


@pytest.mark.parametrize(("ecosystem", "name", "current", "expected"), CASES)
def test_the_lowest_published_version_without_known_advisories_is_chosen(
    ecosystem: str, name: str, current: str, expected: str | None
) -> None:
    published = recorded(ecosystem, name)
    chosen = choose_version(ecosystem, name, current, about(ecosystem, name), published)
    assert (chosen.version, chosen.source) == (expected, "registry")
    assert chosen.hashes == hashes_of(published, expected)
    assert bool(chosen.hashes) == (ecosystem == "PyPI")


@pytest.mark.parametrize(
    ("ecosystem", "name", "current", "expected"),
    [case for case in CASES if case[:3] != ("crates.io", "time", "0.2.3")],
)
def test_without_a_registry_a_fixed_version_is_chosen(
    ecosystem: str, name: str, current: str, expected: str | None
) -> None:
    chosen = choose_version(ecosystem, name, current, about(ecosystem, name), None)
    assert (chosen.version, chosen.source) == (expected, "advisories")
    assert chosen.reason.startswith(f"The {ecosystem} registry is unreachable")


SAFE = "that no known advisory affects"
OLD_COMMIT = "v3.0.0-20210107192922-496545a6307b"
REASONS = [
    (
        *("PyPI", "requests", "2.25.0"),
        f"2.31.0 is the lowest published version above 2.25.0 {SAFE}; it keeps the major version.",
    ),
    (
        *("PyPI", "pyyaml", "5.3"),
        f"5.4 is the lowest published version above 5.3 {SAFE}; it keeps the major version.",
        "5.3.1 is called fixed, but GHSA-8q59-q68h-6hv4 affects it.",
    ),
    (
        *("npm", "lodash", "3.10.1"),
        f"4.17.21 is the lowest published version above 3.10.1 {SAFE}; no version of major 3 is",
        "unaffected, so the major version changes.",
        "4.17.12 is called fixed, but GHSA-29mw-wpgm-hmr9 affects it.",
        "4.17.20 is called fixed, but GHSA-29mw-wpgm-hmr9 affects it.",
    ),
    (
        *("Go", YAML, OLD_COMMIT),
        f"v{YAML_FIX}, the commit that an advisory calls fixed, is the lowest version above",
        f"{OLD_COMMIT} {SAFE}; it keeps the major version.",
    ),
    (
        *("Go", JWT, "3.1.0+incompatible"),
        f"Known advisories affect every version of {JWT} above 3.1.0+incompatible.",
    ),
    (
        *("Go", JWT, "3.2.0+incompatible"),
        f"No version of {JWT} above 3.2.0+incompatible is published.",
    ),
    ("crates.io", "time", "0.2.3", "No known advisory affects time 0.2.3."),
    ("npm", "lodash", "latest", "'latest' is not a valid npm version."),
]


@pytest.mark.parametrize("case", REASONS, ids=lambda case: " ".join(case[1:3]))
def test_the_choice_is_explained(case: tuple[str, ...]) -> None:
    ecosystem, name, current, *reason = case
    published = recorded(ecosystem, name)
    chosen = choose_version(ecosystem, name, current, about(ecosystem, name), published)
    assert chosen.reason == " ".join(reason)


def advisory(ecosystem: str, fixed: str | None) -> Advisory:
    """Of the package `a`: everything below `fixed` has the fault."""
    events = [{"introduced": "0"}, *([{"fixed": fixed}] if fixed else [])]
    kind = "SEMVER" if ecosystem in {"npm", "Go", "crates.io"} else "ECOSYSTEM"
    ranges = [{"type": kind, "events": events}]
    affected = [{"package": {"ecosystem": ecosystem, "name": "a"}, "ranges": ranges}]
    parsed = parse_advisory({"id": "TEST-1", "modified": "2020-01-01", "affected": affected})
    assert parsed is not None
    return parsed


def choose(ecosystem: str, current: str, fixed: str | None, versions: str) -> Choice:
    """A version with a star is withdrawn."""
    published = Published(
        tuple(PublishedVersion(text.rstrip("*"), text.endswith("*")) for text in versions.split())
    )
    return choose_version(ecosystem, "a", current, [advisory(ecosystem, fixed)], published)


@pytest.mark.parametrize(
    ("ecosystem", "current", "fixed", "versions", "expected"),
    [
        # A prerelease is chosen only if the current version is one.
        ("npm", "1.0.0", "1.1.0", "1.0.0 1.2.0-rc.1 1.2.0", "1.2.0"),
        ("npm", "1.0.0-rc.1", "1.1.0", "1.2.0-rc.1 1.2.0", "1.2.0-rc.1"),
        ("npm", "1.0.0", "1.1.0", "1.2.0-rc.1", None),
        # A withdrawn version is not chosen.
        ("PyPI", "1.0", "1.1", "1.0 1.1* 1.2", "1.2"),
        ("PyPI", "1.0", "1.1", "1.0 1.1*", None),
        # Same major first, then the nearest; never down.
        ("npm", "1.0.0", "0.9.0", "0.9.0 2.0.0", None),
        ("npm", "1.0.0", "1.5.0", "3.0.0 2.0.0 1.9.0 1.5.0", "1.5.0"),
        ("npm", "1.0.0", "2.0.0", "3.0.0 2.5.0 2.0.0 1.9.0", "2.0.0"),
        ("npm", "1.0.0", None, "1.0.0 1.1.0", None),
        # Invalid versions of a registry are ignored.
        ("Maven", "1.0", "1.1", "LATEST 1.1", "1.1"),
        # A package for another Java is no replacement, unless there is no other.
        ("Maven", "31.0-jre", "32.0.0", "32.0.0-android 32.0.0-jre", "32.0.0-jre"),
        ("Maven", "31.0-android", "32.0.0", "32.0.0-jre 32.0.1-android", "32.0.1-android"),
        ("Maven", "42.2.5", "42.2.13", "42.2.14.jre7 42.2.14", "42.2.14"),
        ("Maven", "42.2.5.jre6", "42.2.13", "42.2.14.jre7", "42.2.14.jre7"),
        # A commit only if no release has the fix, and the spelling stays as it was.
        ("Go", "v1.0.0", "1.0.1-0.20220101000000-0123456789ab", "1.2.0", "v1.2.0"),
        (
            *("Go", "v1.0.0", "1.0.1-0.20220101000000-0123456789ab", "1.0.0"),
            "v1.0.1-0.20220101000000-0123456789ab",
        ),
        ("Go", "v2.0.0+incompatible", "2.1.0", "2.1.0+incompatible", "v2.1.0+incompatible"),
    ],
)
def test_the_rules_of_the_choice(
    ecosystem: str, current: str, fixed: str | None, versions: str, expected: str | None
) -> None:
    assert choose(ecosystem, current, fixed, versions).version == expected


@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ("", "The npm registry lists no version of a."),
        ("1.0.0", "No version of a above 1.0.0 is published."),
        ("1.0.0 1.0.5", "Known advisories affect every version of a above 1.0.0."),
        (
            "1.0.0 2.0.0-rc.1",
            ("Only prereleases of a above 1.0.0, such as 2.0.0-rc.1, have no known advisories."),
        ),
    ],
)
def test_a_missing_choice_is_explained(versions: str, reason: str) -> None:
    assert choose("npm", "1.0.0", "1.1.0", versions) == Choice(None, reason, "registry")


@pytest.mark.parametrize(
    ("label", "versions", "expected"),
    [
        ("high", {"1.1.0": 200, "1.2.0": 50}, "1.2.0"),
        ("high", {"1.1.0": 100}, "1.1.0"),
        ("high", {"1.1.0": 200}, None),
        ("high", {"1.1.0": None}, "1.1.0"),
        # The fix of a critical vulnerability does not wait.
        ("critical", {"1.1.0": 200, "1.2.0": 50}, "1.1.0"),
    ],
)
def test_a_young_version_is_not_chosen(
    label: str, versions: dict[str, int | None], expected: str | None
) -> None:
    severe = msgspec.structs.replace(advisory("npm", "1.1.0"), label=label)
    published = Published(
        tuple(PublishedVersion(text, published_at=time) for text, time in versions.items())
    )
    choice = choose_version("npm", "a", "1.0.0", [severe], published, published_before=100)
    assert choice.version == expected
    if expected is None:
        assert "1.1.0 fixes it, but was published only on 1970-01-01" in choice.reason
