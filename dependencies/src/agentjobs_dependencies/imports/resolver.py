"""The protocol of a language's resolver, and path functions that resolvers share."""

from posixpath import normpath
from typing import Protocol, TypeAlias

# What an import resolves to: files of the repository, or an external name. Empty for nothing
# relevant, such as the file itself.
Target: TypeAlias = tuple[str, ...] | str
NO_TARGET = ""


class Resolver(Protocol):
    """Knows paths and manifests, and of source files only their imports.

    A name has the same target for all files of a scope. Most names are resolved in a wide scope,
    some in a narrow one.
    """

    def find_scopes(self, path: str) -> tuple[str, str]:
        """The narrow and the wide scope of a file."""

    def is_narrow(self, name: str) -> bool:
        """True if the name is resolved in the narrow scope."""

    def locate(self, scope: str, name: str) -> Target:
        """`scope` is narrow or wide, as `is_narrow` says for the name."""


def parent_directory(path: str) -> str:
    """Empty for the repository's root."""
    return path.rpartition("/")[0]


def join(directory: str, name: str) -> str:
    """Empty for the repository's root; a path outside of it starts with `../`."""
    joined = normpath(f"{directory}/{name}" if directory else name)
    return "" if joined == "." else joined


def below(directory: str, name: str) -> str:
    """`join` for a name that is already normalized."""
    return f"{directory}/{name}" if directory else name


def common_parts(path: str, other: str) -> int:
    """How many directories two paths share from the top."""
    count = 0
    for part, other_part in zip(path.split("/"), other.split("/"), strict=False):
        if part != other_part:
            break
        count += 1
    return count
