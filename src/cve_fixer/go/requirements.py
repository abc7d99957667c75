"""Reads go.mod: its requirements and go version, and the order of Go versions."""

import re
from collections.abc import Iterator
from typing import Any

_COMMENT = re.compile(r"//.*")
_REQUIRE = re.compile(r"\"?(?P<module>[^\s\"()]+)\"?[ \t]+(?P<version>v[^\s/]+)")
_GO = re.compile(r"^[ \t]*go[ \t]+(\d{1,9}(?:\.\d{1,9})*)", re.MULTILINE)
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([^+]+))?")

_END_OF_PRERELEASES = (1,)


def add_v(version: str) -> str:
    suffix = "+incompatible" if version.endswith("+incompatible") else ""
    return f"v{strip_version(version)}{suffix}"


def strip_version(version: str) -> str:
    """As in advisories, which use neither prefix nor suffix."""
    return version.removeprefix("v").removesuffix("+incompatible")


def read_requirements(text: str) -> dict[str, str]:
    """Versions by module, with their prefix."""
    return dict(_read_lines(text, "require"))


def is_excluded(text: str, module: str, version: str) -> bool:
    return (module, add_v(version)) in _read_lines(text, "exclude")


def _read_lines(text: str, verb: str) -> Iterator[tuple[str, str]]:
    """The modules and versions of lines with the verb, or of its blocks."""
    is_block = False
    for line in text.splitlines():
        words = _COMMENT.sub("", line).strip()
        if words.startswith(verb) and words.endswith("("):
            is_block = True
        elif words.startswith(")"):
            is_block = False
        elif is_block or words.startswith(f"{verb} "):
            match = _REQUIRE.match(words.removeprefix(verb).strip())
            if match:
                yield match["module"], match["version"]


def read_go_version(text: str) -> tuple[int, ...] | None:
    match = _GO.search(text)
    return tuple(map(int, match[1].split("."))) if match else None


def version_key(version: str) -> Any:
    """Raises ValueError for a version that is not semantic."""
    match = _VERSION.match(strip_version(version))
    if match is None:
        raise ValueError(version)
    prerelease = _END_OF_PRERELEASES
    if match[4]:
        parts = ((0, int(p), "") if p.isdigit() else (1, 0, p) for p in match[4].split("."))
        prerelease = (0, *parts)  # type: ignore[assignment]
    return (int(match[1]), int(match[2]), int(match[3]), prerelease)
