"""A way into the pod of a service, and from the agent's pod to the service."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs_kubernetes.sandbox import KubernetesSandbox
from agentjobs_worker.sandbox.protocol import RunningSandbox
from tests.support.kubernetes.memory_cluster import memory_cluster
from tests.support.kubernetes.pod_sandbox import pod_sandbox
from tests.support.sandbox import SandboxHarness

# Repeats what it gets, in capitals, after the client has ended.
SERVE = """
import os, socket
listener = socket.create_server(("127.0.0.1", 6379))
open(os.path.dirname(os.environ["AGENTJOBS_REPORT"]) + "/ready", "w").close()
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    with connection:
        data = b"".join(iter(lambda: connection.recv(65536), b""))
        connection.sendall(data.upper())
"""
CALL = """
import socket
for size in (1, 3_000_000):
    with socket.create_connection(("127.0.0.1", 6379), 10) as connection:
        connection.sendall(b"x" * size)
        connection.shutdown(socket.SHUT_WR)
        data = b"".join(iter(lambda: connection.recv(65536), b""))
        print(len(data), data[:1].decode())
"""
REFUSED = """
import socket
with socket.create_connection(("127.0.0.1", 6380), 10) as connection:
    try:
        print(connection.recv(1))
    except ConnectionResetError:
        print(b"")
"""


@pytest.fixture
async def sandbox() -> AsyncIterator[KubernetesSandbox]:
    with memory_cluster() as cluster:
        async with pod_sandbox(cluster.kubeconfig) as sandbox:
            yield sandbox


async def test_an_agent_reaches_a_service_in_another_pod(
    sandbox: KubernetesSandbox, tmp_path: Path
) -> None:
    entered: list[RunningSandbox] = []
    service, agent = (SandboxHarness(sandbox, tmp_path, slot) for slot in range(2))
    running = asyncio.ensure_future(service.run("python3", "-c", SERVE, on_running=entered.append))
    await service.wait_for_output(b"ready\n")
    (way_in,) = entered
    assert await way_in.listening_ports() == [6379]
    assert await way_in.has_reported("ready")
    assert not await way_in.has_reported("other")
    ports = (way_in.port(6379), way_in.port(6380))
    report = await agent.run("python3", "-c", CALL, ports=ports)
    assert report.last_lines.split("\n") == ["1 X", "3000000 X"]
    assert (await agent.run("python3", "-c", REFUSED, ports=ports)).last_lines == "b''"
    running.cancel()
    await asyncio.wait({running})
    with pytest.raises(OSError, match="not connected"):
        await way_in.listening_ports()
    way_in.close()
