"""The order of versions in each ecosystem, compared with other libraries."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from univers import versions as univers

from agentjobs_dependencies.formats.kinds import ECOSYSTEMS
from agentjobs_dependencies.versions.order import is_prerelease, parse_major, version_key

# Each line in rising order; versions joined by = are equal.
RISING = {
    "PyPI": "1.0.dev1 1.0a1 1.0b2 1.0rc1 1.0=1=v1.0.0=1.0+cpu 1.0.post1 1.0.1 1.9 1.10 1!0.1",
    "npm": "0.0.1 1.0.0-0 1.0.0-2 1.0.0-10 1.0.0-alpha 1.0.0-alpha.1 1.0.0-beta=1.0.0beta "
    "1.0.0=v1.0=1.0.0+build 1.0.1-rc.1 1.0.1 1.0.10",
    "crates.io": "0.1 0.2.0-0 0.2.0=0.2 0.2.7-0 0.2.7 0.2.23",
    "Go": "v0.0.0-20150717181359-44718f8a89b0 v0.3.7=0.3.7 v3.0.0-20200313102051-9f266ea9e77c "
    "3.0.0-20220521103104-8f96da9f5d5e v3.0.0 v3.2.0+incompatible=3.2.0 v4.0.0-preview1 v4.0.0",
    "Maven": "2.0-alpha1=2.0-a1=2.0.0-ALPHA-1 2.0-alpha-2 2.0-beta4 2.0-M1=2.0-milestone-1 "
    "2.0-rc1=2.0-CR1 2.0-rc2-SNAPSHOT 2.0-rc2 2.0-SNAPSHOT 2.0=2=2.0.0.Final=2.0.RELEASE=2.0-GA "
    "2.0-sp1 2.0-android 2.0-jre 2.0-1 2.0.1 2.9 2.10",
    "RubyGems": "5.2.8 6.0.0.beta1 6.0.0.rc1 6.0=6.0.0 6.0.0.1 6.1.6 6.1.6.1.pre 6.1.6.1 6.1.10",
    "Packagist": "1.0-dev 1.0.0-alpha1=1.0.0a1 1.0.0-alpha2 1.0-beta.1 1.0-RC1 1.0-rc10 "
    "v1.0=1.0.0.0=1.0.0+meta 1.0-patch1=1.0-p1 1.0.1 1.10",
}
NO_VERSIONS = {
    "PyPI": "1.x main 1.0-foo ==1.0",
    "npm": "latest 1.x ^1.0.0 workspace:* 1..0",
    "crates.io": "* ~1 >=1",
    "Go": "master vendor",
    "Maven": "${project.version} [1.0,2.0) LATEST release",
    "RubyGems": "a.1 >=1 1..2",
    "Packagist": "dev-master 1.x-dev 1.0-foo",
}
PRERELEASES = {
    "PyPI": ("2.0rc1", "2.0.dev1"),
    "npm": ("2.0.0-beta.1",),
    "crates.io": ("0.2.0-0",),
    "Go": ("v4.0.0-preview1",),
    "Maven": ("2.0-M1", "2.0-SNAPSHOT", "2.0.0.Beta2"),
    "RubyGems": ("6.0.0.rc1",),
    "Packagist": ("1.0-RC1", "1.0-dev"),
}
RELEASES = {
    "PyPI": ("2.0.post1",),
    "npm": ("2.0.0+x",),
    "crates.io": ("0.2",),
    "Go": ("v3.2.0+incompatible", "v0.0.0-20150717181359-44718f8a89b0"),
    "Maven": ("5.2.20.RELEASE", "31.1-jre", "1.0-sp1"),
    "RubyGems": ("6.1.6.1",),
    "Packagist": ("1.0-patch1",),
}


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_versions_are_ordered_by_the_rules_of_their_ecosystem(ecosystem: str) -> None:
    groups = [group.split("=") for group in RISING[ecosystem].split()]
    for group in groups:
        keys = {version_key(ecosystem, text) for text in group}
        assert len(keys) == 1, group
        assert None not in keys, group
    for lower, higher in pairwise(group[0] for group in groups):
        assert version_key(ecosystem, lower) < version_key(ecosystem, higher), (lower, higher)


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_an_invalid_version_has_no_key(ecosystem: str) -> None:
    for text in (
        *NO_VERSIONS[ecosystem].split(),
        "",
        " ",
        "1 2",
        "1.0\n2",
        "1" * 200,
        "\u0661.\u0662",
    ):
        assert version_key(ecosystem, text) is None, text
        assert parse_major(ecosystem, text) is None, text
        assert not is_prerelease(ecosystem, text), text


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_prereleases_are_recognized(ecosystem: str) -> None:
    assert all(is_prerelease(ecosystem, text) for text in PRERELEASES[ecosystem])
    assert not any(is_prerelease(ecosystem, text) for text in RELEASES[ecosystem])


@pytest.mark.parametrize(
    ("ecosystem", "text", "major"),
    [
        ("PyPI", "1!4.0", 4),
        ("Go", "v3.2.0+incompatible", 3),
        ("npm", "0.0.8", 0),
        ("Maven", "r09", 9),
    ],
)
def test_the_major_number_is_the_first(ecosystem: str, text: str, major: int) -> None:
    assert parse_major(ecosystem, text) == major


release = st.lists(st.sampled_from([0, 0, 1, 2, 10]), min_size=1, max_size=4).map(
    lambda numbers: ".".join(map(str, numbers))
)
three = st.tuples(*[st.sampled_from([0, 1, 2, 10])] * 3).map(lambda n: ".".join(map(str, n)))


def ending(*suffixes: str) -> st.SearchStrategy[str]:
    return st.sampled_from(["", *suffixes])


semantic = st.builds(
    str.__add__, three, ending("-alpha", "-beta.1", "-rc.1", "-rc.10", "-0", "-x-y", "-alpha.1")
)
gems = st.builds(str.__add__, release, ending(".a", ".pre", ".rc1", ".beta.2", ".0.a", ".rc.1.0"))
maven = st.builds(
    str.__add__,
    release,
    ending(
        "-alpha",
        "-beta2",
        "-RC1",
        "-M1",
        "-SNAPSHOT",
        ".Final",
        "-sp",
        "-jre",
        "-1",
        "-rc-1-SNAPSHOT",
    ),
)
python = st.builds(str.__add__, release, ending("a1", "b2", "rc1", ".post1", ".dev1", "rc1.dev2"))
composer = st.builds(str.__add__, three, ending("-alpha1", "-beta", "-beta1", "-rc1"))
REALISTIC: dict[str, tuple[st.SearchStrategy[str], Any]] = {
    "PyPI": (python, univers.PypiVersion),
    "npm": (semantic, univers.SemverVersion),
    "crates.io": (semantic, univers.SemverVersion),
    "Go": (semantic, univers.GolangVersion),
    "Maven": (maven, univers.MavenVersion),
    "RubyGems": (gems, univers.RubygemsVersion),
    "Packagist": (composer, univers.ComposerVersion),
}


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_another_library_finds_the_same_order(ecosystem: str) -> None:
    strategy, theirs = REALISTIC[ecosystem]

    @settings(max_examples=60)
    @given(strategy, strategy)
    def agree(first: str, second: str) -> None:
        ours = version_key(ecosystem, first) < version_key(ecosystem, second)
        assert ours == (theirs(first) < theirs(second))

    agree()


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_any_two_texts_can_be_compared_or_have_no_key(ecosystem: str) -> None:
    anything = st.text("0129.-_+abrcvX ", max_size=12) | REALISTIC[ecosystem][0]

    @settings(max_examples=60)
    @given(st.lists(anything, max_size=4))
    def comparable(texts: list[str]) -> None:
        keys = [key for key in (version_key(ecosystem, text) for text in texts) if key is not None]
        for lower, higher in pairwise(sorted(keys)):
            assert lower <= higher
            assert (lower < higher) != (lower == higher)

    comparable()


def test_a_composer_version_of_many_digits_is_read_in_bounded_time() -> None:
    assert version_key("Packagist", "1-a" + "1" * 100 + "v") is None
    assert version_key("Packagist", "1-a" + "1" * 100) is not None
