"""Images of environments whose authors attack the node, or the supervisor of their pods."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.sandbox.protocol import RootImage
from tests.acceptance.test_environment_images import registry  # noqa: F401 - a fixture
from tests.kubernetes.test_environments import name  # noqa: F401 - a fixture
from tests.support.image_registry import PASSWORD, USERNAME, ImageRegistry
from tests.support.oci_images import Entry, busybox_layer, layer, link, make_image
from tests.support.sandbox import SandboxHarness

MIB = 1024**2
LIMITS = Limits(memory_bytes=256 * MIB, workspace_bytes=32 * MIB, scratch_bytes=16 * MIB)
WRITABLE = {"mode": 0o777}
HOSTILE = b"#!/bin/sh\necho hostile > /dev/termination-log; exit 3\n"


class Images:
    def __init__(self, registry: ImageRegistry, name: str, directory: Path) -> None:  # noqa: F811
        self._registry = registry
        self._name = name
        self._directory = directory

    def push(self, volume: str, entries: Sequence[Entry]) -> RootImage:
        """An image with a shell that declares a volume."""
        made = make_image(
            self._directory, [busybox_layer(), layer(*entries)], config={"Volumes": {volume: {}}}
        )
        made.push(self._registry.address, "acme/hostile:1", f"--dest-creds={USERNAME}:{PASSWORD}")
        credential = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
        return RootImage(
            reference=f"{self._name}/acme/hostile@{made.digest}",
            registry_auth=json.dumps({"auths": {self._name: {"auth": credential}}}),
        )


@pytest.fixture
def images(registry: ImageRegistry, name: str, tmp_path: Path) -> Images:  # noqa: F811 - fixtures
    return Images(registry, name, tmp_path / "image")


async def test_a_volume_behind_a_link_does_not_replace_the_supervisor(
    harness: SandboxHarness,
    images: Images,
) -> None:
    program = Entry("agentjobs/supervisor", content=HOSTILE, attributes={"mode": 0o755})
    directories = [Entry(path, "directory") for path in ("agentjobs", "a", "a/b")]
    image = images.push("/a/b/c", [*directories, program, link("a/b/c", "/agentjobs")])
    report = await harness.run("/bin/sh", "-c", "exit 9", limits=LIMITS, image=image)
    assert report.exit_code == 9


async def test_what_is_written_to_a_volume_of_the_image_counts(
    harness: SandboxHarness,
    images: Images,
) -> None:
    image = images.push("/data", [Entry("data", "directory", attributes=WRITABLE)])
    script = "busybox dd if=/dev/zero of=/data/file bs=1M count=100; busybox sleep 1000"
    report = await harness.run(
        "/bin/sh", "-c", script, limits=LIMITS, image=image, environment={"PATH": "/bin"}
    )
    assert report.exceeded == LIMITS.workspace_text


async def test_what_is_written_to_the_message_of_the_runtime_counts(
    harness: SandboxHarness,
) -> None:
    script = "head -c 100000000 /dev/zero > /dev/termination-log; sleep 1000"
    report = await harness.shell(script, limits=LIMITS)
    assert report.exceeded == LIMITS.workspace_text
