"""Values of an index: what analyzers produce and the store keeps.

The index process imports this module, so it must not import anything heavy.
"""

from typing import Literal

import msgspec

# More names would take more memory than the source itself; no hand-written file has as many.
MAX_IMPORTS = 20_000

Scope = Literal["runtime", "dev", "optional"]
Imported = Literal["yes", "no", "unknown"]


class IndexWarning(msgspec.Struct, frozen=True):
    """A file that could not be read, and the reason shown to the repository's owner."""

    path: str
    reason: str


class Requirement(msgspec.Struct, frozen=True, array_like=True):
    """A requirement of a manifest. `version` is set if exactly one version satisfies it.

    `managed_by` is the published package whose metadata sets the version, if the repository does
    not.
    """

    name: str
    specifier: str
    version: str | None = None
    scope: Scope = "runtime"
    managed_by: str = ""


class Locked(msgspec.Struct, frozen=True, array_like=True):
    """A package in a lock file; `requires` are positions in the same list of packages."""

    name: str
    version: str
    requires: tuple[int, ...] = ()
    scope: Scope = "runtime"


class Root(msgspec.Struct, frozen=True, array_like=True):
    """A project of a lock file and the positions of its direct dependencies.

    `directory` is relative to the lock file's directory, empty for the same.
    """

    directory: str
    packages: tuple[int, ...]


class ParsedManifest(msgspec.Struct, frozen=True, array_like=True):
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
    notes: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class Dependency(msgspec.Struct, frozen=True):
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


class ParsedModule(msgspec.Struct, frozen=True, array_like=True):
    """The imports of one source file."""

    imports: tuple[str, ...] = ()


class ModuleGraph(msgspec.Struct, frozen=True):
    """Files and their imports. `edges` are pairs of positions in `files`, `external_edges` of a
    position in `files` and one in `externals`; both are sorted and without duplicates."""

    files: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    externals: tuple[str, ...] = ()
    external_edges: tuple[tuple[int, int], ...] = ()


class LanguageLines(msgspec.Struct, frozen=True, array_like=True):
    language: str
    files: int
    lines: int
