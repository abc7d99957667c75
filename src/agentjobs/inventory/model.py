"""What the index of a commit consists of: plain values that analyzers make and stores keep.

Imported by the child process that reads repositories: nothing heavy may come in here.
"""

from typing import Literal

import msgspec

Scope = Literal["runtime", "dev", "optional"]


class IndexWarning(msgspec.Struct, frozen=True):
    """What could not be read, and why, in words for the repository's owner."""

    path: str
    reason: str


class Requirement(msgspec.Struct, frozen=True, array_like=True):
    """What a manifest asks for. `version` is the one exact version it admits, if it does that."""

    name: str
    specifier: str
    version: str | None = None
    scope: Scope = "runtime"


class Locked(msgspec.Struct, frozen=True, array_like=True):
    """What a lock file fixes; `requires` are positions in the same list of packages."""

    name: str
    version: str
    requires: tuple[int, ...] = ()
    scope: Scope = "runtime"


class Root(msgspec.Struct, frozen=True, array_like=True):
    """A project of a lock file and the positions of what it asks for itself.

    `directory` is relative to the lock file's, empty for its own.
    """

    directory: str
    packages: tuple[int, ...]


class ManifestFacts(msgspec.Struct, frozen=True, array_like=True):
    """What one manifest or lock file says by itself, whatever lies beside it.

    `project` is the name it gives its own project. `members` are directories (or patterns) of a
    workspace. `notes` are what other files of the ecosystem need of it (a Maven parent, say).
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
    """A package in one version (None: not fixed by anything) that one manifest leads to.

    `manifest` is the file that fixes the version: the lock file, if there is one. `requirement` is
    what the project itself asks for, empty for what only others ask for. `parents` leads from a
    direct dependency down to the one that asks for this; empty for a direct one.
    """

    ecosystem: str
    name: str
    version: str | None
    requirement: str
    direct: bool
    scope: Scope
    manifest: str
    parents: tuple[str, ...] = ()


class ModuleFacts(msgspec.Struct, frozen=True, array_like=True):
    """What one source file says by itself: its own package, if it names one, and its imports."""

    imports: tuple[str, ...] = ()
    declares: str = ""


class ModuleGraph(msgspec.Struct, frozen=True):
    """Files and what they import. `edges` are pairs of positions in `files`, `external_edges` of a
    position in `files` and one in `externals`; both in order and without repetition."""

    files: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    externals: tuple[str, ...] = ()
    external_edges: tuple[tuple[int, int], ...] = ()


class LanguageLines(msgspec.Struct, frozen=True, array_like=True):
    language: str
    files: int
    lines: int
