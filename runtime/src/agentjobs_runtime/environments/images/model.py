"""An image for its users: where it is unpacked, and how its author starts it."""

from collections.abc import Mapping
from pathlib import Path

import msgspec


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is that of the manifest for this machine's architecture.

    `owner_uid` owns every file below `root`; None: the service's user. `root` is None if the
    sandbox fetches the image.
    """

    reference: str
    digest: str
    root: Path | None
    owner_uid: int | None
    size_bytes: int
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    variables: Mapping[str, str]
    working_directory: str


class RegistryCredential(msgspec.Struct, frozen=True):
    """`host` is written as in a reference: registry.example.com, or with a port."""

    host: str
    username: str
    password: str


class CachedImage(msgspec.Struct, frozen=True, kw_only=True):
    digest: str
    organization_ids: frozenset[str]
    size_bytes: int
    used_at_ns: int


class CachedLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that an organization has downloaded: no image needs them, but they save a download."""

    organization_id: str
    size_bytes: int
    used_at_ns: int
