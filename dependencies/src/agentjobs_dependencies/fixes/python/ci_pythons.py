"""Reads the Python versions that files of CI services, tox and nox name, as text."""

import re
from collections.abc import Iterable, Iterator

CI_FILES = (
    *(".gitlab-ci.yml", ".circleci/config.yml", "azure-pipelines.yml", ".travis.yml"),
    *("bitbucket-pipelines.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml"),
)
TOX_FILES = ("tox.ini", "setup.cfg", "pyproject.toml", "tox.toml")

_VERSION = re.compile(r"\b([23]\.\d+)(?![\d*])")
# A list in brackets, a list with one item per line, or one value.
_VALUES = (
    r"(\[[^\]]{0,2000}\]|(?:[ \t]*\n[ \t]*-[ \t]+[\"']?[\w.-]{1,40}[\"']?){1,50}|[^\n\[]{0,200})"
)
_PYTHON_KEY = re.compile(
    r"^[ \t]*(?:-[ \t]+)?[\"']?(?:[\w.-]{0,40}python[\w.-]{0,40}|versionSpec)[\"']?[ \t]*:[ \t]*"
    + _VALUES,
    re.MULTILINE | re.IGNORECASE,
)
_IMAGE = re.compile(r"\bpython:(\d\.\d+)")
_TOX_KEY = re.compile(r"^[ \t]*env_?list[ \t]*=([^\n]*(?:\n[ \t]+[^\n]*)*)", re.MULTILINE)
_TOX_FACTOR = re.compile(r"\bpy([23]?\.?\d{0,2})(?:\{([^}\n]{1,200})\})?")
_TOX_VERSION = re.compile(r"([23])\.?(\d{1,2})")
_NOX_VALUES = re.compile(
    r"\b(?:python|pythons|python_versions|default_python|all_pythons)[ \t]*=[ \t]*"
    r"([\[(][^\])]{0,2000}[\])]|[\"'][^\"'\n]*[\"'])",
    re.IGNORECASE,
)


def from_yaml(texts: Iterable[str]) -> Iterator[str]:
    """Reads keys such as `python-version` and images, of GitHub, GitLab, CircleCI, Azure …"""
    for text in texts:
        yield from _IMAGE.findall(text)
        for match in _PYTHON_KEY.finditer(text):
            yield from _VERSION.findall(match[1])


def from_tox(texts: Iterable[str]) -> Iterator[str]:
    """Reads factors such as `py38`, `py3.12`, `py{39,310}` and `py3{9,10}`."""
    for text in texts:
        for key in _TOX_KEY.finditer(text):
            for start, endings in _TOX_FACTOR.findall(key[1]):
                for ending in endings.split(","):
                    if version := _TOX_VERSION.fullmatch(start + ending.strip()):
                        yield f"{version[1]}.{version[2]}"


def from_nox(text: str) -> Iterator[str]:
    for match in _NOX_VALUES.finditer(text):
        yield from _VERSION.findall(match[1])
