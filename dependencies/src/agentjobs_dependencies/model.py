"""What readers find in manifests and lock files, and the dependencies that result from them.

Parts of lock files are tuples, because there may be hundreds of thousands of them.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Scope = Literal["runtime", "dev", "optional"]
Imported = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class IndexWarning:
    """A file that could not be read, and the reason shown to the repository's owner."""

    path: str
    reason: str


class Requirement(NamedTuple):
    """A requirement of a manifest. `version` is set if exactly one version satisfies it.

    `managed_by` is the published package whose metadata sets the version, if the repository does
    not.
    """

    name: str
    specifier: str
    version: str | None = None
    scope: Scope = "runtime"
    managed_by: str = ""


class Locked(NamedTuple):
    """A package in a lock file; `requires` are positions in the same list of packages."""

    name: str
    version: str
    requires: tuple[int, ...] = ()
    scope: Scope = "runtime"


class Root(NamedTuple):
    """A project of a lock file and the positions of its direct dependencies.

    `directory` is relative to the lock file's directory, empty for the same.
    """

    directory: str
    packages: tuple[int, ...]


class ParsedManifest(NamedTuple):
    """The content of one manifest or lock file, independent of other files.

    `project` is the name of its project. `members` are directories (or patterns) of a workspace.
    `notes` are values that other files of the ecosystem need, such as a Maven parent.
    """

    ecosystem: str
    project: str = ""
    requirements: tuple[Requirement, ...] = ()
    packages: tuple[Locked, ...] = ()
    roots: tuple[Root, ...] = ()
    members: tuple[str, ...] = ()
    notes: dict[str, str] = {}  # noqa: RUF012 - the default of a field, which nothing changes
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dependency:
    """A package that one manifest depends on. `version` is None if nothing pins it.

    `manifest` is the file that pins the version: the lock file, if there is one. `requirement` is
    the project's own requirement, empty for a transitive dependency. `parents` is the path from a
    direct dependency to the one that requires this package; empty for a direct dependency.
    `fixture` is true if the manifest belongs to tests or examples. `imported` says whether a source
    file imports the package or one that requires it. `managed_by` is the published package that
    sets the version, if the repository does not: a parent or BOM of Maven.
    """

    ecosystem: str
    name: str
    version: str | None
    requirement: str
    direct: bool
    scope: Scope
    manifest: str
    parents: tuple[str, ...] = ()
    fixture: bool = False
    imported: Imported = "unknown"
    managed_by: str = ""
