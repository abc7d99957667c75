"""Published versions of a package, and errors of registries."""

import msgspec

# More than any package has; limits memory.
MAX_VERSIONS = 100_000
_MAX_VERSION_LENGTH = 256


class RegistryUnavailable(Exception):
    """No version list could be fetched; the message says why and which setting may help."""


class InvalidResponse(Exception):
    """The response is not a valid version list; the message says why."""


class PublishedVersion(msgspec.Struct, frozen=True):
    """`hashes` are those of its files, as `sha256:…`, if the registry lists them (PyPI)."""

    version: str
    yanked: bool = False
    hashes: tuple[str, ...] = ()


class Published(msgspec.Struct, frozen=True):
    """All versions in the registry's order; empty if the registry does not have the package."""

    versions: tuple[PublishedVersion, ...] = ()

    @property
    def weight(self) -> int:
        """The approximate number of objects in memory."""
        return 1 + sum(1 + len(item.hashes) for item in self.versions)


def is_version(text: str) -> bool:
    """Rejects unsafe text, because versions go into files, commands and pull requests."""
    return (
        0 < len(text) <= _MAX_VERSION_LENGTH and text.isascii() and text.isprintable()
    ) and not any(character in text for character in " \"'<>`$\\/;|&")
