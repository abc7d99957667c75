"""Reads pnpm-lock.yaml of versions 5 to 9, which differ in the keys of packages:
`/name/1.0.0_peer@2.0.0`, `/name@1.0.0(peer@2.0.0)`, `name@1.0.0(peer@2.0.0)`."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentjobs_dependencies.formats.bounds import limit_requirements
from agentjobs_dependencies.formats.locks import Lock
from agentjobs_dependencies.formats.npm.ranges import ECOSYSTEM, is_local, is_version, requirement
from agentjobs_dependencies.formats.text import UnreadableManifest, Warnings, decode, table_at
from agentjobs_dependencies.formats.yaml_lines import read_yaml
from agentjobs_dependencies.model import ParsedManifest, Requirement, Root, Scope

# Large attributes of a package that are not needed; names of packages are indented deeper.
_BULK = re.compile(
    r"^    (?:(?:resolution|engines|cpu|os|libc): [{\[][^\n]*|(?:hasBin|requiresBuild): true)\n",
    re.MULTILINE,
)
_PACKAGE = re.compile(r"/?((?:@[^/@]+/)?[^/@]+)[/@]([^_(]+)")
_SECTIONS: dict[str, Scope] = {
    "dependencies": "runtime",
    "devDependencies": "dev",
    "optionalDependencies": "optional",
}


class PnpmRequirement(NamedTuple):
    """`resolved` is a version, or the key of an entry, for example of an alias."""

    name: str
    specifier: str
    resolved: str
    scope: Scope


class PnpmLock:
    """`importers` are the projects of the repository by directory, `entries` the packages that are
    installed, with their peers, by key."""

    def __init__(self, text: str) -> None:
        document = read_yaml(_BULK.sub("", text))
        self._packages = table_at(document, "packages")
        self.entries = table_at(document, "snapshots") or self._packages
        # Formats 5 and 6 do not nest a single project.
        self.importers = table_at(document, "importers") or {".": document}

    def metadata(self, key: str) -> dict[str, Any]:
        """What the registry says about the package of an entry."""
        package = key if key in self._packages else key.partition("(")[0]
        return table_at(self._packages, package)

    def identity(self, key: str) -> tuple[str, str]:
        """The name and version. A package from a URL has separate fields for them."""
        name, version = split_package(key)
        metadata = self.metadata(key)
        return str(metadata.get("name") or name), str(metadata.get("version") or version)


def split_package(key: str) -> tuple[str, str]:
    """The name and version of an entry, without its peers."""
    match = _PACKAGE.match(key)
    return (match[1], match[2]) if match else (key, "")


def read_section(entry: Any, section: str) -> dict[str, str]:
    """What an entry requires, as far as it is a version and not a table."""
    table = table_at(entry, section) if isinstance(entry, dict) else {}
    return {name: value for name, value in table.items() if isinstance(value, str)}


def project_requirements(project: Any) -> Iterator[PnpmRequirement]:
    """Since format 6, a requirement has both a range and a version; before, ranges are apart."""
    specifiers = read_section(project, "specifiers")
    for section, scope in _SECTIONS.items():
        table = table_at(project, section) if isinstance(project, dict) else {}
        for name, value in table.items():
            is_table = isinstance(value, dict)
            specifier = value.get("specifier") if is_table else specifiers.get(name)
            resolved = value.get("version") if is_table else value
            if isinstance(resolved, str):
                text = specifier if isinstance(specifier, str) else ""
                yield PnpmRequirement(name, text, resolved, scope)


def read_pnpm_lock(content: bytes) -> ParsedManifest:
    text, reasons = decode(content)
    if text.lstrip()[:1] == "[":
        raise UnreadableManifest("not a mapping")
    document, lock = PnpmLock(text), Lock(Warnings(reasons))
    for key, entry in document.entries.items():
        _add(lock, key, entry, document)
    for key, entry in document.entries.items():
        required = {
            **read_section(entry, "dependencies"),
            **read_section(entry, "optionalDependencies"),
        }
        lock.require(key, _find_all(lock, required.items()))
    projects = {at: list(project_requirements(p)) for at, p in document.importers.items()}
    return ParsedManifest(
        ECOSYSTEM,
        requirements=limit_requirements(_requirements(projects), lock.warnings),
        packages=lock.packages(),
        roots=tuple(
            Root(
                "" if at == "." else at,
                tuple(dict.fromkeys(_find_all(lock, ((r.name, r.resolved) for r in required)))),
            )
            for at, required in projects.items()
        ),
        warnings=lock.warnings.all(),
    )


def _requirements(projects: dict[str, list[PnpmRequirement]]) -> Iterator[Requirement]:
    for required in projects.values():
        for name, specifier, _, scope in required:
            if specifier and not is_local(specifier):
                yield requirement(name, specifier, scope)


def _add(lock: Lock, key: str, entry: Any, document: PnpmLock) -> None:
    name, version = document.identity(key)
    if is_local(version) or is_local(key.removeprefix("/")):
        return
    if not is_version(version):
        lock.warnings.add(f"{name[:100]} has the invalid version {version[:100]!r}")
    flags = entry if isinstance(entry, dict) else {}
    scope: Scope = "dev" if flags.get("dev") == "true" else "runtime"
    if scope == "runtime" and flags.get("optional") == "true":
        scope = "optional"
    lock.add(key, name, version, scope)


def _find_all(lock: Lock, required: Any) -> Iterator[int]:
    """The version of an alias is the full key of the package."""
    for name, version in required:
        for key in (f"{name}@{version}", f"/{name}@{version}", f"/{name}/{version}", version):
            position = lock.position(key)
            if position is not None:
                yield position
                break
