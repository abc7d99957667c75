"""Images that a job fetches without a build: they keep the cache within its limit, too."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs.store.database import Database
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_worker.environments.snapshots import Snapshots
from agentjobs_worker.environments.worker_environments import WorkerEnvironments
from agentjobs_worker.run.environment import _fetch_images
from tests.support.images import ImagesHarness
from tests.support.oci_images import Entry, layer, make_image, shell_layer
from tests.support.sandbox import eventually
from tests.support.scripted_registry import ScriptedRegistry, scripted_registry


@pytest.fixture
async def registry() -> AsyncIterator[ScriptedRegistry]:
    async with scripted_registry() as registry:
        yield registry


async def test_every_fetch_without_a_build_trims_the_cache(
    database: Database, tmp_path: Path, registry: ScriptedRegistry
) -> None:
    harness = ImagesHarness(tmp_path / "environments", [registry.name])
    snapshots = Snapshots(harness.directory / "snapshots", harness.session)
    tools: Any = SimpleNamespace(
        images=harness.images, snapshots=snapshots, session=harness.session, slots=(0, 1)
    )
    environments = WorkerEnvironments(database, harness.directory, tools, cache_max_bytes=1)
    run: Any = SimpleNamespace(
        service=SimpleNamespace(db=database),
        tools=SimpleNamespace(service=SimpleNamespace(db=database, keys=None)),
        job=SimpleNamespace(organization_id="org_a", repo_id="repo_1"),
        log=SimpleNamespace(write=lambda _chunk: None, note=lambda _line: None),
    )

    async def fetch(name: str) -> None:
        request = SimpleNamespace(images=(f"{registry.name}/acme/{name}:1",), request_key="key")
        requested: Any = SimpleNamespace(request=request)
        with contextlib.ExitStack() as held:
            await _fetch_images(run, environments, requested, held)

    for name in ("used", "other"):
        registry.add(
            make_image(tmp_path / name, [shell_layer(), layer(Entry(name))]), f"acme/{name}"
        )
        await fetch(name)
    await eventually(lambda: not (harness.directory / "layouts" / "org_a").exists())
    # A download that fails leaves the layers before.
    image = make_image(tmp_path / "cut", [shell_layer(), layer(Entry("cut"))])
    registry.add(image, "acme/cut")
    registry.fail(f"/v2/acme/cut/blobs/{image.layers[1]}", 404)
    with pytest.raises(EnvironmentFailed):
        await fetch("cut")
    await eventually(lambda: not (harness.directory / "layouts" / "org_a").exists())
    await environments.close()
