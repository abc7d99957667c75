"""The layers that organizations have downloaded, each in a directory of its own."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from agentjobs_runtime.environments.images.model import CachedItem
from agentjobs_runtime.files.removal import remove
from agentjobs_worker.environments.images.manifest import Descriptor
from agentjobs_worker.environments.images.registry import UNFINISHED
from agentjobs_worker.environments.images.tool_sandbox import ToolSandbox


class Layers:
    """Callers hold the organization's lock."""

    def __init__(self, directory: Path, tools: ToolSandbox) -> None:
        self._directory = directory
        self._tools = tools

    def path(self, organization_id: str) -> Path:
        return self._directory / organization_id

    def blobs(self, organization_id: str) -> Path:
        return self.path(organization_id) / "blobs"

    def organization_ids(self) -> list[str]:
        try:
            return [path.name for path in self._directory.iterdir()]
        except FileNotFoundError:
            return []

    def prepare(self, organization_id: str) -> Path:
        """Blocking."""
        path = self.path(organization_id)
        uid = os.geteuid() if self._tools.owner_uid is None else self._tools.owner_uid
        # Layers of another user, from before a setting changed, can be downloaded again.
        if path.is_dir() and (path.stat().st_uid != uid or not self._is_intact(organization_id)):
            remove(path)
        if not path.is_dir():
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._tools.create_directory(path)
            self._tools.create_directory(path / "blobs")
            self._tools.create_directory(path / "blobs" / "sha256")
        os.utime(path)
        return path

    def missing(self, organization_id: str, layers: Iterable[Descriptor]) -> list[Descriptor]:
        """Blocking: layers whose content is not here.

        The worker computes their digests itself, because whatever the registry or skopeo say, only
        the content proves that the organization has them.
        """
        if not self._is_intact(organization_id):
            return list(layers)
        directory = self.blobs(organization_id) / "sha256"
        return [layer for layer in layers if not _is_complete(directory / layer.hex, layer)]

    def forget(self, organization_id: str, layers: Iterable[Descriptor]) -> None:
        for layer in layers:
            (self.blobs(organization_id) / "sha256" / layer.hex).unlink(missing_ok=True)

    def remove(self, organization_id: str) -> None:
        """Blocking."""
        remove(self.path(organization_id))

    def remove_unfinished(self, organization_id: str) -> None:
        """Blocking."""
        remove(self.path(organization_id) / UNFINISHED)

    def list(self) -> list[CachedItem]:
        """Blocking."""
        entries = []
        for organization_id in self.organization_ids():
            with contextlib.suppress(FileNotFoundError):
                blobs = (self.blobs(organization_id) / "sha256").iterdir()
                size = sum(path.lstat().st_size for path in blobs)
                used_at_ns = self.path(organization_id).stat().st_mtime_ns
                owner = frozenset({organization_id})
                entries.append(CachedItem("layers", organization_id, owner, size, used_at_ns))
        return entries

    def _is_intact(self, organization_id: str) -> bool:
        """Whether no sandbox has put a link to the layers of others in their place."""
        blobs = self.blobs(organization_id)
        return all(path.is_dir() and not path.is_symlink() for path in (blobs, blobs / "sha256"))


def _is_complete(path: Path, layer: Descriptor) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != layer.size:
            return False
        return hashlib.file_digest(file, "sha256").hexdigest() == layer.hex
