"""The order of versions by the rules of each ecosystem.

A key is comparable with keys of the same ecosystem; invalid versions have none. Implemented here
because matching needs a hundred thousand keys at a time; tests compare them with other libraries.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any

from agentjobs_dependencies.versions import maven
from agentjobs_dependencies.versions.maven import NUMBERS

Key = Any

_MAX_LENGTH = 128
_PSEUDO_VERSION = re.compile(r"v?\d+\.\d+\.\d+-(?:.+\.)?\d{14}-[0-9a-f]{12}(?:\+incompatible)?")


@lru_cache(maxsize=65536)
def version_key(ecosystem: str, text: str) -> Key | None:
    """None for an invalid version, such as a branch or a variable."""
    text = text.strip()
    return _KEYS[ecosystem](text) if 0 < len(text) <= _MAX_LENGTH else None


def is_prerelease(ecosystem: str, text: str) -> bool:
    """False for an invalid version."""
    key = version_key(ecosystem, text)
    return key is not None and _PRERELEASES[ecosystem](key, text)


def is_pseudo_version(ecosystem: str, text: str) -> bool:
    """A Go version made of a commit; proxies serve such versions but do not list them."""
    return ecosystem == "Go" and _PSEUDO_VERSION.fullmatch(text) is not None


def parse_major(ecosystem: str, text: str) -> int | None:
    if version_key(ecosystem, text) is None:
        return None
    # A Python epoch precedes the major number.
    number = re.search(r"\d+", text.rpartition("!")[2])
    return int(number[0]) if number else None


# Python


_PYPI = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<phase>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre>\d*))?"
    r"(?:-(?P<post1>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post2>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev1>\d*))?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE | re.ASCII,
)
_PHASES = {"a": 0, "alpha": 0, "b": 1, "beta": 1}
_NO_PRE, _ONLY_DEV = (9, 0), (-1, 0)


def _pypi(text: str) -> Key | None:
    """A local version (1.0+cpu) has the vulnerabilities of its base version."""
    if NUMBERS.fullmatch(text):
        return (0, _release(text), _NO_PRE, -1, inf)
    match = _PYPI.fullmatch(text)
    if match is None:
        return None
    part = match.groupdict()
    has_post = part["post"] is not None or part["post1"] is not None
    pre = _NO_PRE
    if part["phase"]:
        pre = (_PHASES.get(part["phase"].lower(), 2), int(part["pre"] or 0))
    elif part["dev"] and not has_post:
        pre = _ONLY_DEV
    post = int(part["post1"] or part["post2"] or 0) if has_post else -1
    dev = int(part["dev1"] or 0) if part["dev"] else inf
    return (int(part["epoch"] or 0), _release(part["release"]), pre, post, dev)


# npm, crates.io and Go: semantic versions, including those without a number or hyphen

_SEMVER = re.compile(
    r"(?:v|=|go)?\s*(\d+(?:\.\d+)*)(?:-([0-9A-Za-z.-]+)|([A-Za-z][0-9A-Za-z.-]*))?(?:\+.*)?",
    re.ASCII,
)


def _semver(text: str) -> Key | None:
    if NUMBERS.fullmatch(text):
        return (_release(text), 1)
    match = _SEMVER.fullmatch(text)
    if match is None:
        return None
    release = _release(match[1])
    pre = match[2] or match[3]
    if pre is None:
        return (release, 1)
    parts = ((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split("."))
    return (release, 0, tuple(parts))


# RubyGems: letters sort below the end, and missing parts are zero

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
    """As if followed by endless zeros: zeros sort below the end if the part after them does.

    A number is never below zero; a word always is.
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
    r"(?:[._-]?(stable|beta|b|rc|alpha|a|patch|pl|p)((?>(?:[.-]?\d++)*)))?"
    r"([.-]?dev)?(?:\+.*)?",
    re.ASCII | re.IGNORECASE,
)
_STABILITIES = {"a": 1, "alpha": 1, "b": 2, "beta": 2, "rc": 3, "stable": 4}
_COMPOSER_STABLE = 4


def _composer(text: str) -> Key | None:
    if NUMBERS.fullmatch(text):
        return (_release(text), _COMPOSER_STABLE, (), 1)
    match = _COMPOSER.fullmatch(text)
    if match is None:
        return None
    release, stability, numbers, dev = match.groups()
    after_stable = 5
    if stability is None:
        rank = 0 if dev else _COMPOSER_STABLE
    else:
        rank = _STABILITIES.get(stability.lower(), after_stable)
    counts = tuple(int(number) for number in re.findall(r"\d+", numbers or ""))
    return (_release(release.replace("-", ".")), rank, counts, 0 if dev else 1)


def _release(text: str) -> tuple[int, ...]:
    """1.0 and 1.0.0 are equal."""
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
    "Maven": maven.key,
    "RubyGems": _gem,
    "Packagist": _composer,
}
# OSV's names.
ECOSYSTEMS = frozenset(_KEYS)

_PRERELEASES: Mapping[str, Callable[[Key, str], bool]] = {
    "PyPI": lambda key, _: key[2] != _NO_PRE or key[4] != inf,
    "npm": lambda key, _: key[1] == 0,
    "crates.io": lambda key, _: key[1] == 0,
    # Some modules publish only pseudo-versions.
    "Go": lambda key, text: key[1] == 0 and not is_pseudo_version("Go", text),
    "Maven": lambda key, _: maven.is_prerelease(key),
    "RubyGems": lambda _, text: bool(re.search("[a-zA-Z]", text)),
    "Packagist": lambda key, _: key[1] < _COMPOSER_STABLE or key[3] == 0,
}
