"""The images that this worker knows, which organizations share, by the manifest's digest."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.images.model import CachedItem, Image
from agentjobs_runtime.files.locks import borrow, take
from agentjobs_runtime.private_files import replace_private_file
from agentjobs_worker.environments.images.manifest import ImageConfig
from agentjobs_worker.environments.images.unpack import ROOT

_DESCRIPTION = "image.json"
# Not `organizations`: earlier versions wrote there who had read the manifest, which proves nothing.
_OWNERS = "owners"


class _Description(msgspec.Struct, frozen=True, kw_only=True):
    owner_uid: int | None
    size_bytes: int
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    variables: Mapping[str, str]
    working_directory: str


class StoredImages:
    """A directory per image, which appears complete and is never written to again. Without roots,
    it only has what the image's configuration says.

    The file `owners/<id>` says that the organization has downloaded all of it from its registry.
    """

    def __init__(self, directory: Path, *, has_roots: bool = True) -> None:
        self._directory = directory
        self._has_roots = has_roots

    def has(self, digest: str) -> bool:
        return (self._path(digest) / _DESCRIPTION).is_file()

    def find(self, organization_id: str, digest: str) -> Image | None:
        path = self._path(digest)
        try:
            reference = (path / _OWNERS / organization_id).read_text()
            description = msgspec.json.decode((path / _DESCRIPTION).read_bytes(), type=_Description)
        except FileNotFoundError:
            return None
        return Image(
            reference=reference,
            digest=digest,
            root=path / ROOT if self._has_roots else None,
            **msgspec.structs.asdict(description),
        )

    def allow(self, organization_id: str, digest: str, reference: str) -> None:
        """Raises FileNotFoundError if the image was removed meanwhile."""
        owners = self._path(digest) / _OWNERS
        owners.mkdir(mode=0o700, exist_ok=True)
        replace_private_file(owners / organization_id, reference.encode())
        os.utime(self._path(digest) / _DESCRIPTION)

    def add(
        self, digest: str, unpacked: Path, config: ImageConfig, *, owner_uid: int | None, size: int
    ) -> None:
        """`unpacked` contains the root, if it has one, and is moved."""
        description = _Description(
            owner_uid=owner_uid, size_bytes=size, **msgspec.structs.asdict(config)
        )
        (unpacked / _DESCRIPTION).write_bytes(msgspec.json.encode(description))
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        unpacked.rename(self._path(digest))

    @contextlib.contextmanager
    def hold(self, digest: str) -> Iterator[None]:
        """Raises ImageError if the image is not here."""
        path = self._path(digest)
        with borrow(path) as exists:
            if not exists:
                raise ImageError(f"The image {digest} is not on this worker any more.")
            with contextlib.suppress(OSError):
                os.utime(path / _DESCRIPTION)
            yield

    def take(self, digest: str, target: Path) -> bool:
        """Move the image to `target` for removal; False if it is in use or gone."""
        return take(self._path(digest), target)

    def list(self) -> list[CachedItem]:
        """Blocking."""
        try:
            names = [path.name for path in self._directory.iterdir()]
        except FileNotFoundError:
            return []
        return [image for name in names if (image := self._describe(f"sha256:{name}")) is not None]

    def _describe(self, digest: str) -> CachedItem | None:
        path = self._path(digest)
        try:
            description = msgspec.json.decode((path / _DESCRIPTION).read_bytes(), type=_Description)
            used_at_ns = (path / _DESCRIPTION).stat().st_mtime_ns
            owners = frozenset(owner.name for owner in (path / _OWNERS).glob("[!.]*"))
            return CachedItem("image", digest, owners, description.size_bytes, used_at_ns)
        except FileNotFoundError:
            return None

    def _path(self, digest: str) -> Path:
        return self._directory / digest.removeprefix("sha256:")
