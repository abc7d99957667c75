"""Published versions of a package, and errors of registries."""

from datetime import UTC, datetime

import msgspec

# More than any package has; limits memory.
MAX_VERSIONS = 100_000
_MAX_VERSION_LENGTH = 256
_MAX_RANGE_LENGTH = 200


class RegistryUnavailable(Exception):
    """No version list could be fetched; the message says why and which setting may help."""


class InvalidResponse(Exception):
    """The response is not a valid version list; the message says why."""


class PublishedVersion(msgspec.Struct, frozen=True):
    """`hashes` are those of its files, as `sha256:…`, if the registry lists them (PyPI).

    `requires` is the range of Python, Node.js, Rust or Ruby versions it needs, as the ecosystem
    writes it. Both it and `published_at` are missing where the registry does not list them.
    """

    version: str
    yanked: bool = False
    hashes: tuple[str, ...] = ()
    requires: str = ""
    published_at: int | None = None


class Published(msgspec.Struct, frozen=True):
    """All versions in the registry's order; empty if the registry does not have the package."""

    versions: tuple[PublishedVersion, ...] = ()

    @property
    def weight(self) -> int:
        """The approximate number of objects in memory."""
        return 1 + sum(1 + len(item.hashes) for item in self.versions)


def time_ms(text: object) -> int | None:
    """Parses an ISO 8601 time; None if it is missing or invalid."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None


def range_text(value: object) -> str:
    """A range that may go into a job file; empty if it is missing or unusual."""
    if not isinstance(value, str) or len(value) > _MAX_RANGE_LENGTH or not value.isprintable():
        return ""
    return value.strip()


def is_version(text: str) -> bool:
    """Rejects unsafe text, because versions go into files, commands and pull requests."""
    return (
        0 < len(text) <= _MAX_VERSION_LENGTH and text.isascii() and text.isprintable()
    ) and not any(character in text for character in " \"'<>`$\\/;|&")
