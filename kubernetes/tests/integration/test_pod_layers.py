"""Layers in pods keep the promises that they keep in other sandboxes."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes.memory_cluster import memory_cluster
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.sandbox import SandboxHarness
from worker.tests.integration.sandbox.test_layers import (  # noqa: F401 - the same tests
    test_a_directory_that_is_missing_is_named,
    test_other_places_cannot_have_a_layer,
    test_the_next_sandbox_with_the_same_layer_finds_what_was_written,
    test_the_workspace_keeps_its_files_beside_those_of_its_layer,
    test_what_a_sandbox_writes_is_in_its_own_directory_only,
)


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with memory_cluster() as cluster:
        yield cluster.kubeconfig


@pytest.fixture
async def harness(kubeconfig: Path, tmp_path: Path) -> AsyncIterator[SandboxHarness]:
    async with pod_sandbox(kubeconfig) as sandbox:
        yield SandboxHarness(sandbox, tmp_path)
