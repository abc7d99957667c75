"""OCI images on a worker: every organization downloads them, and they are unpacked once for all."""

import asyncio
import contextlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from agentjobs_runtime.environments.images.errors import ImageError, RegistryUnavailable
from agentjobs_runtime.environments.images.model import (
    CachedItem,
    Image,
    RegistryCredential,
)
from agentjobs_runtime.environments.images.reference import Reference, parse_reference
from agentjobs_runtime.files.locks import KeyedLocks, try_lock
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.resolver import Lookup, system_lookup
from agentjobs_runtime.sandboxes.limits import format_bytes
from agentjobs_runtime.threads import run_in_thread
from agentjobs_worker.environments.images.layers import Layers
from agentjobs_worker.environments.images.manifest import ImageConfig, Manifest, parse_config
from agentjobs_worker.environments.images.registry import Registry
from agentjobs_worker.environments.images.stored import StoredImages
from agentjobs_worker.environments.images.tool_sandbox import ToolSandbox
from agentjobs_worker.environments.images.unpack import ROOT, UnpackError, unpack
from agentjobs_worker.sandbox.protocol import OnOutput, Sandbox
from agentjobs_worker.workspace.session import Session

LAYERS_WAIT_SECONDS = 60.0
_MIB = 1024**2


class Images:
    """`directory` may be shared with other processes; `slot` is a sandbox slot for images alone.

    A sandbox that fetches images itself only needs their descriptions.
    """

    def __init__(
        self,
        directory: Path,
        session: Session,
        sandbox: Sandbox,
        allowed: AllowList,
        *,
        slot: int,
        max_bytes: int,
        insecure_registries: Collection[str] = (),
        certificates: Path | None = None,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._tools = ToolSandbox(sandbox, session, slot, certificates)
        self._registry = Registry(
            self._tools, allowed, insecure_hosts=insecure_registries, lookup=lookup
        )
        self._unpacks = not sandbox.fetches_images
        name = "images" if self._unpacks else "descriptions"
        self._stored = StoredImages(directory / name, has_roots=self._unpacks)
        self._layers = Layers(directory / "layouts", self._tools)
        self._lock_directory = directory / "locks"
        self._locks = KeyedLocks(self._lock_directory)
        self._max_bytes = max_bytes

    async def resolve(
        self, organization_id: str, reference: str, credentials: Sequence[RegistryCredential]
    ) -> str:
        """The digest of the manifest for this machine's architecture. Raises ImageError."""
        parsed = parse_reference(reference)
        if parsed.digest and self.find(organization_id, parsed.digest) is not None:
            return parsed.digest
        return (await self._registry.read_manifest(parsed, credentials)).digest

    async def fetch(
        self,
        organization_id: str,
        reference: str,
        credentials: Sequence[RegistryCredential],
        on_output: OnOutput,
    ) -> Image:
        """Pull and unpack what is not here yet, or read its description.

        Always reads the manifest with these credentials. An organization that has not used the
        image before downloads all of it: whoever knows a manifest can serve it, so only the content
        proves that the organization may have it. Raises ImageError.
        """
        pull = _Pull(organization_id, parse_reference(reference), credentials, on_output)
        manifest = await self._registry.read_manifest(pull.reference, credentials)
        try:
            if self.find(organization_id, manifest.digest) is None:
                async with self._locks.hold(_layers_key(organization_id)):
                    # Another fetch may have pulled it meanwhile.
                    if self.find(organization_id, manifest.digest) is None:
                        await self._pull(pull, manifest)
                        self._stored.allow(organization_id, manifest.digest, reference)
            self._stored.allow(organization_id, manifest.digest, reference)
        except FileNotFoundError:
            raise _removed(reference) from None
        image = self.find(organization_id, manifest.digest)
        if image is None:
            raise _removed(reference)
        return image

    def find(self, organization_id: str, digest: str) -> Image | None:
        """None if it is not unpacked here, or the organization has not fetched it."""
        return self._stored.find(organization_id, digest)

    def hold(self, digest: str) -> contextlib.AbstractContextManager[None]:
        """Keep the image from being removed. Raises ImageError if it is not here."""
        return self._stored.hold(digest)

    async def images(self) -> list[CachedItem]:
        return await run_in_thread(self._stored.list)

    async def layers(self) -> list[CachedItem]:
        return await run_in_thread(self._layers.list)

    async def remove(self, digest: str) -> bool:
        """False if the image is in use or gone."""
        async with self._tools.work_directory() as directory:
            return self._stored.take(digest, directory / "removed")

    async def remove_layers(self, organization_id: str) -> bool:
        """False if a download takes longer than others should wait for it."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(LAYERS_WAIT_SECONDS):
                    await stack.enter_async_context(self._locks.hold(_layers_key(organization_id)))
            except TimeoutError:
                return False
            await run_in_thread(self._layers.remove, organization_id)
            return True

    def sweep(self) -> None:
        """Blocking: remove what interrupted downloads of dead processes left."""
        for organization_id in self._layers.organization_ids():
            lock = try_lock(self._lock_directory / f"{_layers_key(organization_id)}.lock")
            if lock is not None:
                self._layers.remove_unfinished(organization_id)
                os.close(lock)

    async def _pull(self, pull: "_Pull", manifest: Manifest) -> None:
        if manifest.size_bytes > self._max_bytes:
            raise ImageError(
                f"{pull.reference} has {format_size(manifest.size_bytes)} of layers, and "
                f"{format_bytes(self._max_bytes)} are allowed. Use a smaller image, or ask the "
                "operator to raise environment_image_max_mib."
            )
        config = await self._registry.read_config(pull.reference, manifest, pull.credentials)
        description = parse_config(config)
        if self._unpacks:
            await self._download(pull, manifest)
        else:
            # The nodes of a cluster share layers, too, and do not ask who may have them.
            await self._registry.check_layers(
                pull.reference, manifest, config, pull.credentials, pull.on_output
            )
        async with self._locks.hold(f"image-{manifest.digest}"):
            if self._stored.has(manifest.digest):
                return
            if self._unpacks:
                await self._unpack(pull, manifest, config, description)
            else:
                await self._describe(manifest, description)

    async def _describe(self, manifest: Manifest, description: ImageConfig) -> None:
        async with self._tools.work_directory() as directory:
            image = directory / "image"
            image.mkdir(mode=0o700)
            self._stored.add(manifest.digest, image, description, owner_uid=None, size=0)

    async def _download(self, pull: "_Pull", manifest: Manifest) -> None:
        organization_id = pull.organization_id
        directory = await run_in_thread(self._layers.prepare, organization_id)
        missing = await run_in_thread(self._layers.missing, organization_id, manifest.unique_layers)
        if not missing:
            return
        size = format_size(sum(layer.size for layer in missing))
        pinned = pull.reference.pinned(manifest.digest)
        pull.on_output(f"Downloading {size} of {pinned}\n".encode())
        # skopeo would not download a file again that is there but damaged.
        self._layers.forget(organization_id, missing)
        await self._registry.download(
            pull.reference, manifest, pull.credentials, directory, pull.on_output
        )
        if missing := await run_in_thread(self._layers.missing, organization_id, missing):
            raise ImageError(
                f"{pull.reference} is invalid: {missing[0].digest} has other content than its "
                "manifest says."
            )

    async def _unpack(
        self, pull: "_Pull", manifest: Manifest, config: bytes, description: ImageConfig
    ) -> None:
        pull.on_output(b"Unpacking the image\n")
        blobs = self._layers.blobs(pull.organization_id)
        async with self._tools.work_directory() as directory:
            workspace = directory / "workspace"
            self._tools.create_directory(workspace)
            try:
                size = await unpack(
                    self._tools,
                    manifest,
                    config,
                    blobs,
                    workspace,
                    max_bytes=self._max_bytes,
                    on_output=pull.on_output,
                )
            except UnpackError:
                self._layers.forget(pull.organization_id, manifest.unique_layers)
                raise
            image = directory / "image"
            image.mkdir(mode=0o700)
            (workspace / ROOT).rename(image / ROOT)
            owner_uid = self._tools.owner_uid
            self._stored.add(manifest.digest, image, description, owner_uid=owner_uid, size=size)


class _Pull(msgspec.Struct, frozen=True):
    """The arguments of a call of `fetch`."""

    organization_id: str
    reference: Reference
    credentials: Sequence[RegistryCredential]
    on_output: OnOutput


def format_size(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:.1f} MiB"


def _layers_key(organization_id: str) -> str:
    return f"layers-{organization_id}"


def _removed(reference: str) -> RegistryUnavailable:
    return RegistryUnavailable(f"{reference} was removed from this worker while it was fetched.")
