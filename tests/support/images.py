"""`Images` of a test worker, to which every registry is on loopback."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentjobs_runtime.environments.images.model import Image, RegistryCredential
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_worker.environments.images.images import Images
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.workspace.session import Session
from tests.support.sandbox import unused_uid_base

MIB = 1024**2
SLOT = 3
UID_BASE = unused_uid_base()


class ImagesHarness:
    def __init__(self, directory: Path, insecure: Sequence[str] = (), **options: Any) -> None:
        self.directory = directory
        self.output = b""
        self.session = Session(directory)
        fields: dict[str, Any] = {
            "slot": SLOT,
            "max_bytes": 64 * MIB,
            "insecure_registries": insecure,
            "lookup": lambda _host: ["127.0.0.1"],
        }
        sandbox = BubblewrapSandbox(options.pop("uid_base", UID_BASE))
        sandbox.fetches_images = options.pop("fetches_images", False)
        self.images = Images(
            directory,
            self.session,
            sandbox,
            options.pop("allowed", AllowList.parse(["127.0.0.0/8"])),
            **{**fields, **options},
        )

    async def fetch(
        self, reference: str, *credentials: RegistryCredential, organization: str = "org_a"
    ) -> Image:
        return await self.images.fetch(organization, reference, credentials, self._receive)

    def leftovers(self) -> list[Path]:
        """Files that belong neither to an image nor to finished layers."""
        layouts = self.directory / "layouts"
        return [
            *self.session.directory.glob("*"),
            *(path for path in layouts.glob("*/*") if path.name != "blobs"),
            *(path for path in layouts.glob("*/blobs/*") if path.name != "sha256"),
        ]

    def image_directories(self) -> list[str]:
        path = self.directory / "images"
        return os.listdir(path) if path.exists() else []  # noqa: PTH208 - only names

    def _receive(self, chunk: bytes) -> None:
        self.output += chunk
