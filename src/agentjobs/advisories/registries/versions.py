"""What a registry says about a package, and how asking it can fail."""

import msgspec

# No package has as many. What has more is no list of versions, and would only cost memory.
MAX_VERSIONS = 100_000
_LONGEST_VERSION = 256


class RegistryUnavailable(Exception):
    """Whoever was asked gave no list of versions; the message says why, and what would help."""


class InvalidResponse(Exception):
    """What came is no list of versions; the message says what is wrong with it."""


class PublishedVersion(msgspec.Struct, frozen=True):
    """`hashes` are of its files, as `sha256:…`, where the registry's list has them (PyPI)."""

    version: str
    yanked: bool = False
    hashes: tuple[str, ...] = ()


class Published(msgspec.Struct, frozen=True):
    """Every version of a package in the registry's order; none if the registry does not know it."""

    versions: tuple[PublishedVersion, ...] = ()

    @property
    def weight(self) -> int:
        """How many small objects this is in memory, more or less."""
        return 1 + sum(1 + len(one.hashes) for one in self.versions)


def is_version(text: str) -> bool:
    """Whether it can be a version at all: they end up in files, commands and pull requests."""
    return (
        0 < len(text) <= _LONGEST_VERSION and text.isascii() and text.isprintable()
    ) and not any(mark in text for mark in " \"'<>`$\\/;|&")
