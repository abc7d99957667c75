"""Services in pods of their own, which an agent in another pod reaches on its loopback."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster
from tests.support.kubernetes.objects import Object
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.services import ServiceHarness, echo_service
from worker.tests.integration.environments.test_services import (  # noqa: F401 - collected here too
    test_a_failure_shows_the_end_of_the_output,
    test_a_service_reaches_neither_the_ports_of_the_agent_nor_any_network,
    test_services_with_several_ports_are_reached_from_every_sandbox_of_the_job,
    test_two_services_on_one_port_fail,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[MemoryCluster]:
    with memory_cluster() as cluster:
        yield cluster


@pytest.fixture
async def harness(cluster: MemoryCluster, tmp_path: Path) -> AsyncIterator[ServiceHarness]:
    async with pod_sandbox(cluster.kubeconfig) as sandbox:
        yield ServiceHarness(sandbox, tmp_path)


async def test_the_ready_command_of_a_service_runs_in_its_pod(harness: ServiceHarness) -> None:
    ready = "test -e asked || { touch asked; echo not yet >&2; exit 1; }"
    task = harness.service("slow", *echo_service("127.0.0.1:7000"), ready=ready)
    async with harness.running(task) as services:
        assert await harness.connect(services, "127.0.0.1:7000") == ["7000 echo hello"]
    assert harness.output["slow"].count(b"not ready: not yet\n") == 1


async def test_no_pod_of_a_service_is_left(harness: ServiceHarness, cluster: MemoryCluster) -> None:
    def pods() -> list[Object]:
        return cluster.call(lambda: cluster.objects.list("pods"))

    async with harness.running(harness.service("echo", *echo_service("127.0.0.1:5001"))):
        assert len(pods()) == 1
    assert pods() == []
