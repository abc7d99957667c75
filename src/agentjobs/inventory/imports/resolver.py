"""What every language's resolver is, and the small arithmetic of paths they share."""

from posixpath import normpath
from typing import Protocol, TypeAlias

# Where an import leads: to files of the repository, or to something outside of it that has this
# name; an empty one leads nowhere that matters, such as to the file itself.
Place: TypeAlias = tuple[str, ...] | str
NOWHERE = ""


class Resolver(Protocol):
    """Knows paths and manifests, and of source files nothing but what they ask for.

    Files of one scope are led to the same place by the same name: most names mean the same in a
    wide scope, some only in a narrow one.
    """

    def scopes_of(self, path: str) -> tuple[str, str]:
        """The narrow one and the wide one."""

    def is_narrow(self, name: str) -> bool:
        """Whether the name means something else in each narrow scope."""

    def locate(self, scope: str, name: str) -> Place:
        """`scope` is the narrow or the wide one, as the name wants it."""


def directory_of(path: str) -> str:
    """Empty for the repository's own."""
    return path.rpartition("/")[0]


def join(directory: str, name: str) -> str:
    """Empty for the repository's own directory; what leads out of it begins with `../`."""
    joined = normpath(f"{directory}/{name}" if directory else name)
    return "" if joined == "." else joined


def below(directory: str, name: str) -> str:
    """`join` for a name that has no dots and slashes to make away with."""
    return f"{directory}/{name}" if directory else name


def common_parts(one: str, other: str) -> int:
    """How many directories two paths share from the top."""
    count = 0
    for mine, its in zip(one.split("/"), other.split("/"), strict=False):
        if mine != its:
            break
        count += 1
    return count
