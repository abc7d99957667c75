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


class CachedItem(msgspec.Struct, frozen=True):
    """`organization_ids` share its size. `kind` is `snapshot`, `image` or `layers`, and `name` is
    the ID of a build, a digest, or the organization that has downloaded the layers."""

    kind: str
    name: str
    organization_ids: frozenset[str]
    size_bytes: int
    used_at_ns: int
