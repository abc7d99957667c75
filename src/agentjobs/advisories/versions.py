"""The order of versions, by the rules of each ecosystem. Knows no package and no advisory.

A key is comparable with keys of the same ecosystem; what is no version there has none. Written here
because matching asks for a hundred thousand keys at a time; the tests hold them to other libraries.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any

from packaging.version import InvalidVersion, Version

from agentjobs.advisories import maven_versions
from agentjobs.advisories.maven_versions import NUMBERS

Key = Any

_LENGTH = 128
_PSEUDO_VERSION = re.compile(r"v?\d+\.\d+\.\d+-(?:.+\.)?\d{14}-[0-9a-f]{12}(?:\+incompatible)?")


@lru_cache(maxsize=65536)
def version_key(ecosystem: str, text: str) -> Key | None:
    """None for what is no version: a branch, a variable, a typing error."""
    text = text.strip()
    return _KEYS[ecosystem](text) if 0 < len(text) <= _LENGTH else None


def is_prerelease(ecosystem: str, text: str) -> bool:
    """Whether its makers call it unfinished; false for what is no version."""
    key = version_key(ecosystem, text)
    return key is not None and _PRERELEASES[ecosystem](key, text)


def is_pseudo_version(ecosystem: str, text: str) -> bool:
    """A commit that Go made a version of: no proxy lists those, though it delivers them."""
    return ecosystem == "Go" and _PSEUDO_VERSION.fullmatch(text) is not None


def major_of(ecosystem: str, text: str) -> int | None:
    if version_key(ecosystem, text) is None:
        return None
    # An epoch of Python's stands before the number that people call major.
    number = re.search(r"\d+", text.rpartition("!")[2])
    return int(number[0]) if number else None


# Python


_NO_PRE, _ONLY_DEV = (1, "", 0), (-1, "", 0)


def _pypi(text: str) -> Key | None:
    """Plain tuples: packaging's versions compare slowly."""
    if NUMBERS.fullmatch(text):
        return (0, _release(text), _NO_PRE, -1, inf)
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    # A local build (1.0+cpu) has the faults of what it was built from.
    pre = (0, *version.pre) if version.pre is not None else _NO_PRE
    if version.dev is not None and version.pre is None and version.post is None:
        pre = _ONLY_DEV
    post = -1 if version.post is None else version.post
    dev = inf if version.dev is None else version.dev
    return (version.epoch, _without_zeros(version.release), pre, post, dev)


# npm, crates.io and Go: semantic versions, also those that leave out a number or the hyphen

_SEMVER = re.compile(
    r"(?:v|=|go)?\s*(\d+(?:\.\d+)*)(?:-([0-9A-Za-z.-]+)|([A-Za-z][0-9A-Za-z.-]*))?(?:\+.*)?",
    re.ASCII,
)


def _semver(text: str) -> Key | None:
    if NUMBERS.fullmatch(text):
        return (_release(text), 1)
    found = _SEMVER.fullmatch(text)
    if found is None:
        return None
    release = _release(found[1])
    pre = found[2] or found[3]
    if pre is None:
        return (release, 1)
    parts = ((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split("."))
    return (release, 0, tuple(parts))


# RubyGems: letters are below nothing, and nothing is zero

_GEM = re.compile(r"\d+(?:\.[0-9a-zA-Z]+)*(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII)


def _gem(text: str) -> Key | None:
    if NUMBERS.fullmatch(text):
        return (*[(1, number) for number in _release(text)], (0,))
    if not _GEM.fullmatch(text):
        return None
    parts = re.findall(r"\d+|[a-zA-Z]+", text.replace("-", ".pre."))
    first_word = next(position for position, part in enumerate(parts) if not part.isdigit())
    tail = parts[first_word:]
    while tail[-1].strip("0") == "":
        tail.pop()
    numbers = _release(".".join(parts[:first_word]))
    return _zero_padded([*numbers, *(int(p) if p.isdigit() else p for p in tail)])


def _zero_padded(parts: Sequence[int | str]) -> Key:
    """As if endless zeros followed, so zeros are below an end if what they lead to is, else above.

    A number is never below zero, a word always.
    """
    key: list[Any] = []
    zeros = 0
    for part in parts:
        if part == 0:
            zeros += 1
            continue
        key += [(-1, zeros, part)] if isinstance(part, str) else [(1, 0)] * zeros + [(1, part)]
        zeros = 0
    return (*key, (0,))


# Composer: a stability and its number follow the release

_COMPOSER = re.compile(
    r"v?(\d+(?:[.-]\d+)*)"
    r"(?:[._-]?(stable|beta|b|rc|alpha|a|patch|pl|p)((?:[.-]?\d+)*))?"
    r"([.-]?dev)?(?:\+.*)?",
    re.ASCII | re.IGNORECASE,
)
_STABILITIES = {"a": 1, "alpha": 1, "b": 2, "beta": 2, "rc": 3, "stable": 4}
_COMPOSER_STABLE = 4


def _composer(text: str) -> Key | None:
    if NUMBERS.fullmatch(text):
        return (_release(text), _COMPOSER_STABLE, (), 1)
    found = _COMPOSER.fullmatch(text)
    if found is None:
        return None
    release, stability, numbers, dev = found.groups()
    after_stable = 5
    if stability is None:
        rank = 0 if dev else _COMPOSER_STABLE
    else:
        rank = _STABILITIES.get(stability.lower(), after_stable)
    counts = tuple(int(number) for number in re.findall(r"\d+", numbers or ""))
    return (_release(release.replace("-", ".")), rank, counts, 0 if dev else 1)


def _release(text: str) -> tuple[int, ...]:
    """1.0 and 1.0.0 are the same."""
    return _without_zeros(tuple(map(int, text.split("."))))


def _without_zeros(numbers: Sequence[int]) -> tuple[int, ...]:
    end = len(numbers)
    while end > 1 and not numbers[end - 1]:
        end -= 1
    return tuple(numbers) if end == len(numbers) else tuple(numbers[:end])


_KEYS: Mapping[str, Callable[[str], Key | None]] = {
    "PyPI": _pypi,
    "npm": _semver,
    "crates.io": _semver,
    "Go": _semver,
    "Maven": maven_versions.key,
    "RubyGems": _gem,
    "Packagist": _composer,
}

_PRERELEASES: Mapping[str, Callable[[Key, str], bool]] = {
    "PyPI": lambda key, _: key[2] != _NO_PRE or key[4] != inf,
    "npm": lambda key, _: key[1] == 0,
    "crates.io": lambda key, _: key[1] == 0,
    # A commit between two tags is all that some modules ever publish.
    "Go": lambda key, text: key[1] == 0 and not is_pseudo_version("Go", text),
    "Maven": lambda key, _: maven_versions.is_prerelease(key),
    "RubyGems": lambda _, text: bool(re.search("[a-zA-Z]", text)),
    "Packagist": lambda key, _: key[1] < _COMPOSER_STABLE or key[3] == 0,
}
