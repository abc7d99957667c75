"""What tests switch on in the in-memory cluster, and how its pods are connected."""

import contextlib
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.support.kubernetes.client import ApiClient
from tests.support.kubernetes.memory_cluster import MemoryCluster, memory_cluster
from tests.support.kubernetes.objects import ApiError
from tests.support.sandbox import eventually
from worker.tests.integration.sandbox.test_api_server import (
    has_ended,
    is_running,
    read_state,
    wait_for_log,
)

SERVE = """
import socket
with socket.create_server(("0.0.0.0", 8463)) as server:
    print("up", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello " + connection.recv(100))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[MemoryCluster]:
    with memory_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: MemoryCluster) -> Iterator[ApiClient]:
    """In a namespace of its own."""
    client = ApiClient(cluster.kubeconfig)
    yield client
    for pod in client.get(client.pods)["items"]:
        client.delete(f"{client.pods}/{pod['metadata']['name']}", gracePeriodSeconds=0)
    client.close()


def can_connect(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 10).close()
    except ConnectionRefusedError:
        return False
    except ConnectionResetError:
        # It was accepted, and nothing listens inside.
        return True
    return True


def test_errors_are_answered_once_each(cluster: MemoryCluster, client: ApiClient) -> None:
    cluster.api.faults.errors += [
        ApiError(429, "TooManyRequests", "too many requests", retry_after=1),
        ApiError(503, "ServiceUnavailable", "apiserver is shutting down"),
    ]
    first, second, third = (client.http.get(client.pods) for _ in range(3))
    assert (first.status_code, first.headers["Retry-After"]) == (429, "1")
    assert (second.status_code, third.status_code) == (503, 200)
    assert second.json()["reason"] == "ServiceUnavailable"


def test_permissions_can_be_taken_away(cluster: MemoryCluster, client: ApiClient) -> None:
    cluster.api.faults.forbidden.add(("create", "pods"))
    with contextlib.closing(client.connect({})) as nobody:
        assert nobody.get(client.pods).status_code == 401
    response = client.http.post(client.pods, json={})
    cluster.api.faults.forbidden.clear()
    assert (response.status_code, response.json()["reason"]) == (403, "Forbidden")


def test_a_stopped_server_refuses_connections_and_comes_back(
    cluster: MemoryCluster, client: ApiClient
) -> None:
    watch = client.watch(client.pods)
    client.create_pod()
    assert next(watch)["type"] == "ADDED"
    cluster.wait(cluster.api.stop())
    with pytest.raises(httpx.TransportError):
        list(watch)
    with pytest.raises(httpx.ConnectError):
        client.get(client.pods)
    cluster.wait(cluster.api.start())
    assert len(client.get(client.pods)["items"]) == 1


def test_a_dropped_watch_can_be_resumed(cluster: MemoryCluster, client: ApiClient) -> None:
    watch = client.watch(client.pods)
    client.create_pod(nodeSelector={"no": "node"})
    version = next(watch)["object"]["metadata"]["resourceVersion"]
    cluster.call(cluster.api.drop_watches)
    with pytest.raises(httpx.TransportError):
        list(watch)
    client.delete(f"{client.pods}/pod", gracePeriodSeconds=0)
    resumed = client.watch(client.pods, resourceVersion=version)
    assert any(event["type"] == "DELETED" for event in resumed)


def test_a_watch_from_before_a_compaction_is_gone(
    cluster: MemoryCluster, client: ApiClient
) -> None:
    version = client.get(client.pods)["metadata"]["resourceVersion"]
    client.create_pod()
    cluster.call(cluster.objects.compact)
    (event,) = client.watch(client.pods, resourceVersion=version)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_the_address_of_a_pod_leads_to_its_port(client: ApiClient) -> None:
    client.create_pod("python3", "-c", SERVE)
    address = (client.wait_for_pod(is_running)["status"]["podIP"], 8463)
    assert address[0].startswith("127.")
    wait_for_log(client, "up")
    for _ in range(2):
        with socket.create_connection(address, 10) as connection:
            connection.sendall(b"there")
            assert connection.recv(100) == b"hello there"
    client.delete(f"{client.pods}/pod", gracePeriodSeconds=0)
    await eventually(lambda: not can_connect(address))


def test_a_container_can_be_killed_for_its_memory(
    cluster: MemoryCluster, client: ApiClient
) -> None:
    client.create_pod()
    client.wait_for_pod(is_running)
    cluster.call(lambda: cluster.kubelet.pod(client.namespace, "pod").kill("OOMKilled"))
    ended = read_state(client.wait_for_pod(has_ended))["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_pod_can_be_evicted(cluster: MemoryCluster, client: ApiClient) -> None:
    client.create_pod()
    client.wait_for_pod(is_running)
    message = "The node was low on resource: memory."
    cluster.call(lambda: cluster.kubelet.pod(client.namespace, "pod").fail("Evicted", message))
    status = client.wait_for_pod(has_ended)["status"]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)
