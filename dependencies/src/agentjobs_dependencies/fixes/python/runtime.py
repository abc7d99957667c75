"""Finds the Python versions that a project supports, from what its files say. Runs nothing.

`ci_pythons` reads the versions that CI, tox and nox name.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentjobs_dependencies.fixes import tree
from agentjobs_dependencies.fixes.python import ci_pythons
from agentjobs_dependencies.versions.pypi import allows

_MAX_BYTES = 1024 * 1024
_MAX_FILES = 50
# The released versions that a package of today may still support.
MINORS = ("2.7", *(f"3.{minor}" for minor in range(4, 16)))
_VERSION = re.compile(r"\b([23]\.\d+)")
_COMPILED_WITH = re.compile(r"^#.*(?:with [Pp]ython |--python-version[ =])(\d+\.\d+)", re.MULTILINE)
_PYTHON_REQUIRES = re.compile(r"^\s*python_requires\s*=\s*([\"']?)([^\"'\n]+)\1", re.MULTILINE)
_FROM_PYTHON = re.compile(
    r"^\s*FROM\s+(?:--\S+\s+)?(?:\S*/)?python:(?:(?P<version>\d\.\d+)|\$\{?(?P<argument>\w+))",
    re.MULTILINE | re.IGNORECASE,
)
# The value of a build argument: `ARG name=3.8`, and `name: 3.8` or `- name=3.8` in compose files.
_ARGUMENT = r"^[ \t-]*(?:ARG[ \t]+)?[\"']?{name}[\"']?[ \t]*[:=][ \t]*[\"']?(\d\.\d+)"
_COMPOSE_FILE = re.compile(r"(?:docker-)?compose[\w.-]*\.ya?ml")


def supported_pythons(root: Path, manifest: str) -> tuple[str, ...]:
    """Versions such as `3.8`, the lowest first: all of a range, or all that are named.

    What the project declares counts more than what builds or tests it. Empty if unknown.
    """
    compiled = _COMPILED_WITH.search(_read(root / manifest))
    if compiled:
        return (compiled[1],)
    directories = [
        directory for directory in (root / manifest).parents if directory.is_relative_to(root)
    ]
    ranges = (_from_ranges(directory) for directory in directories)
    if versions := next(filter(None, ranges), ()):
        return versions
    named = (_named(directory, root) for directory in directories)
    return next(filter(None, named), ())


def _from_ranges(directory: Path) -> tuple[str, ...]:
    specifiers = [
        _specifier_of_pyproject(_read(directory / "pyproject.toml")),
        *(
            specifier
            for name in ("setup.cfg", "setup.py")
            for _, specifier in _PYTHON_REQUIRES.findall(_read(directory / name))
        ),
    ]
    for specifier in filter(None, specifiers):
        if versions := tuple(minor for minor in MINORS if allows(specifier, f"{minor}.99")):
            return versions
    return ()


def _specifier_of_pyproject(text: str) -> str:
    try:
        document = tomllib.loads(text)
        specifier = document.get("project", {}).get("requires-python") or (
            document.get("tool", {}).get("poetry", {}).get("dependencies", {}).get("python")
        )
    except (ValueError, RecursionError, AttributeError):
        return ""
    return specifier if isinstance(specifier, str) else ""


def _named(directory: Path, root: Path) -> tuple[str, ...]:
    """Versions that files of this directory name; CI belongs to the root."""
    versions = set(_from_version_files(directory))
    versions.update(_from_images(directory))
    versions.update(ci_pythons.from_tox(_texts(directory, ci_pythons.TOX_FILES)))
    versions.update(ci_pythons.from_nox(_read(directory / "noxfile.py")))
    if directory == root:
        workflows = [
            path
            for path in _entries(root / ".github" / "workflows")
            if path.suffix in {".yml", ".yaml"}
        ]
        texts = [_read(path) for path in workflows[:_MAX_FILES]]
        versions.update(ci_pythons.from_yaml([*texts, *_texts(root, ci_pythons.CI_FILES)]))
    return tuple(version for version in MINORS if version in versions)


def _from_images(directory: Path) -> Iterator[str]:
    """The Dockerfiles' versions; compose files may set build arguments."""
    files = _entries(directory)[:_MAX_FILES]
    compose = "\n".join(_read(path) for path in files if _COMPOSE_FILE.fullmatch(path.name))
    for path in files:
        text = _read(path) if path.name.startswith("Dockerfile") else ""
        for image in _FROM_PYTHON.finditer(text):
            if image["version"]:
                yield image["version"]
            else:
                pattern = re.compile(_ARGUMENT.format(name=image["argument"]), re.MULTILINE)
                yield from pattern.findall(f"{text}\n{compose}")


def _from_version_files(directory: Path) -> Iterable[str]:
    for name in (".python-version", "runtime.txt"):
        yield from _VERSION.findall(_read(directory / name))
    try:
        requires = tomllib.loads(_read(directory / "Pipfile")).get("requires", {})
        version = requires.get("python_version") or requires.get("python_full_version")
    except (ValueError, RecursionError, AttributeError):
        return
    if isinstance(version, str):
        yield from _VERSION.findall(version)


def _texts(directory: Path, names: Iterable[str]) -> list[str]:
    return [_read(directory / name) for name in names]


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    """Empty if there is no such file."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        return tree.read(path)
    except OSError:
        return ""
