"""What only agents in pods can attack: the cluster, the supervisor, and other agents' pods."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentjobs_kubernetes.frames import FrameType, encode_frame
from agentjobs_kubernetes.network_policy import ensure_network_policy
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from tests.kubernetes import network_policies
from tests.kubernetes.cluster import Cluster
from tests.support.kubernetes.client import ApiClient
from tests.support.sandbox import SandboxHarness

SECRET = "a-secret-of-the-organization"
# Each attempt is refused, or prints what it reached.
PROBE = """
import errno, json, os, signal, socket, ssl, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
def probe(name, action):
    try:
        reached = action()
    except OSError as error:
        print(f"{name}: refused, {errno.errorcode.get(error.errno, error)}", flush=True)
    else:
        print(f"{name}: REACHED {reached!r}"[:300], flush=True)
"""


@pytest.fixture
def client(cluster: Cluster) -> Iterator[ApiClient]:
    with contextlib.closing(ApiClient(cluster.kubeconfig)) as client:
        yield client


async def attack(harness: SandboxHarness, program: str, **changes: Any) -> dict[str, str]:
    """How each attempt was refused, by name; fails if one succeeded."""
    report = await harness.run("python3", "-c", PROBE + program, **changes)
    assert report.exit_code == 0, harness.output
    lines = (line.partition(": ") for line in harness.output.decode().splitlines())
    results = {name: text for name, _, text in lines if text.startswith(("refused", "REACHED"))}
    assert {name: text for name, text in results.items() if "REACHED" in text} == {}
    return results


def pods_of(client: ApiClient, sandbox: KubernetesSandbox) -> list[dict[str, Any]]:
    namespace = sandbox.cluster.settings.namespace
    pods: list[dict[str, Any]] = client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return pods


@contextlib.asynccontextmanager
async def running(harness: SandboxHarness, *argv: str, **changes: Any) -> AsyncIterator[None]:
    """A command that prints `up`, until the block ends."""
    task = asyncio.ensure_future(harness.run(*argv, **changes))
    try:
        await harness.wait_for_output(b"up\n")
        yield
        assert not task.done(), harness.output
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_pod_has_no_credential_of_the_cluster(harness: SandboxHarness) -> None:
    results = await attack(
        harness,
        """
for path in ("/var/run/secrets", "/run/secrets", "/var/run/secrets/kubernetes.io/serviceaccount",
        "/var/lib/kubelet", "/run/containerd/containerd.sock", "/etc/kubernetes"):
    probe(path, lambda: os.listdir(path) if not path.endswith(".sock") else os.stat(path))
print("variables", sorted(name for name in os.environ
    if "KUBERNETES" in name or "SERVICE" in name or "SUPERVISOR" in name))
mounts = [line.split() for line in open("/proc/self/mountinfo")]
of_the_node = ("/etc", "/root", "/home")
print("from the node", [line[4] for line in mounts if line[3].startswith(of_the_node)])
""",
    )
    assert len(results) == 6
    assert b"variables []" in harness.output
    assert b"from the node []" in harness.output


async def test_the_objects_of_the_cluster_show_no_secret(
    harness: SandboxHarness, sandbox: KubernetesSandbox, client: ApiClient
) -> None:
    argv = ("sh", "-c", f"echo up; sleep 1000; : {SECRET}")
    async with running(harness, *argv, environment={"TOKEN": SECRET}):
        (pod,) = pods_of(client, sandbox)
        text = json.dumps(pod)
        assert SECRET not in text
        assert all("hostPath" not in volume for volume in pod["spec"]["volumes"])
        assert pod["spec"]["automountServiceAccountToken"] is False
        (container,) = pod["spec"]["containers"]
        variables = {each["name"]: each.get("value", "") for each in container["env"]}
        assert set(variables) == {"AGENTJOBS_SUPERVISOR"}
        # The pod can recognize the token, but does not have it.
        assert set(json.loads(variables["AGENTJOBS_SUPERVISOR"])) == {
            *("certificate", "key", "token_sha256", "port", "orphan_seconds", "directories")
        }


async def test_the_supervisor_can_be_neither_read_nor_ended(harness: SandboxHarness) -> None:
    results = await attack(
        harness,
        """
def read(name):
    with open(f"/proc/1/{name}", "rb") as file:
        return file.read(1)
for name in ("environ", "mem", "maps", "auxv", "stack", "io"):
    probe(f"read {name}", lambda: read(name))
for name in ("fd", "map_files", "ns"):
    probe(f"list {name}", lambda: [os.stat(f"/proc/1/{name}/{each}")
        for each in os.listdir(f"/proc/1/{name}")][0])
for name in ("exe", "cwd", "root"):
    probe(f"follow {name}", lambda: os.listdir(f"/proc/1/{name}/."))
for name in ("oom_score_adj", "comm", "coredump_filter"):
    probe(f"write {name}", lambda: open(f"/proc/1/{name}", "w").write("1000"))
probe("limits", lambda: __import__("resource").prlimit(1, 7, (0, 0)))
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
print("still here")
""",
    )
    assert len(results) >= 14, results
    assert b"still here" in harness.output


async def test_an_agent_cannot_use_the_port_of_its_supervisor(harness: SandboxHarness) -> None:
    await harness.run(
        "python3",
        "-c",
        PROBE
        + """
own = socket.gethostbyname(socket.gethostname())
answers = set()
context = ssl.create_default_context(); context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
for number in range(1000):
    try:
        with socket.create_connection((("127.0.0.1", own)[number % 2], 8463), 10) as connection:
            with context.wrap_socket(connection) as secured:
                secured.sendall(b"\\0" * 9)
                answers.add(secured.recv(100))
    except OSError as error:
        answers.add(b"")
print("answers", answers, flush=True)
held = []
try:
    for _ in range(200):
        held.append(socket.create_connection(("127.0.0.1", 8463), 10))
except OSError:
    pass
print("done")
""",
    )
    assert b"answers {b''}" in harness.output
    # The connection of the worker was not replaced, and did not suffer.
    assert harness.output.endswith(b"done\n")


async def test_frames_in_the_output_are_only_output(harness: SandboxHarness) -> None:
    ended = b'{"type":"ended","exit_code":0,"exceeded":null,"duration_ms":1}'
    forged = b"".join(
        (
            encode_frame(FrameType.MESSAGE, ended),
            encode_frame(FrameType.OUTPUT, (1 << 40).to_bytes(8, "big") + b"forged"),
            encode_frame(FrameType.MESSAGE, b'{"type":"ack","offset":1000000000000}'),
            encode_frame(FrameType.DATA, b""),
        )
    )
    (harness.workspace / "frames").write_bytes(forged * 100)
    report = await harness.shell("cat frames frames; exit 9")
    assert report.exit_code == 9
    assert harness.output == forged * 200


async def test_a_supervisor_refuses_a_wrong_token(
    harness: SandboxHarness, sandbox: KubernetesSandbox, client: ApiClient
) -> None:
    async with running(harness, "sh", "-c", "echo up; sleep 1000"):
        (pod,) = pods_of(client, sandbox)
        address = pod["status"]["podIP"]
        hellos = [
            {"type": kind, "version": 2, "token": token, "session": 1, "path": "/workspace"}
            for kind in ("hello", "download")
            for token in ("wrong", "", "A" * 43, None, 5)
        ]
        frames = [encode_frame(FrameType.MESSAGE, json.dumps(each).encode()) for each in hellos]
        frames += [
            encode_frame(FrameType.MESSAGE, b'{"type":"kill"}'),
            encode_frame(FrameType.DATA, b"x"),
            b"\xff" * 9,
            b"GET / HTTP/1.1\r\n\r\n",
        ]
        replies = await asyncio.gather(*(reply_to(address, frame) for frame in frames))
        assert set(replies) == {b""}


async def reply_to(address: str, frame: bytes) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        reader, writer = await asyncio.open_connection(address, 8463, ssl=context)
    except OSError:
        # There may be eight unauthenticated ones only.
        return b""
    writer.write(frame)
    try:
        return await reader.read(100)
    except OSError:
        return b""
    finally:
        writer.transport.abort()


async def test_nothing_is_reachable_where_policies_are_enforced(
    cluster: Cluster, sandbox: KubernetesSandbox, tmp_path: Path, client: ApiClient
) -> None:
    victim, attacker = (SandboxHarness(sandbox, tmp_path, slot) for slot in range(2))
    await ensure_network_policy(sandbox.cluster)
    with network_policies.enforced(cluster):
        async with running(victim, "sh", "-c", "echo up; sleep 1000"):
            (pod,) = pods_of(client, sandbox)
            node = pod["status"]["hostIP"]
            targets = [
                *((pod["status"]["podIP"], port) for port in (8463, 80)),
                *((node, port) for port in (10250, 10255, 6443, 2379, 22)),
                ("169.254.169.254", 80),
                ("8.8.8.8", 53),
                *((service_address(client), port) for port in (443, 53)),
            ]
            results = await attack(
                attacker,
                """
targets = json.loads(os.environ["TARGETS"])
def dial(target):
    probe(f"{target[0]} {target[1]}", lambda: socket.create_connection(tuple(target), 3).close())
def ask(address):
    header = bytes.fromhex("123401000001000000000000")
    query = header + b"\\x0akubernetes\\x07default\\0\\0\\x01\\0\\x01"
    with socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(3)
        datagrams.sendto(query, (address, 53))
        return datagrams.recv(100)
with ThreadPoolExecutor(32) as pool:
    list(pool.map(dial, targets))
    for address in sorted({target[0] for target in targets}):
        pool.submit(probe, f"names at {address}", lambda address=address: ask(address))
for name in ("kubernetes.default", "kubernetes.default.svc.cluster.local", "example.com"):
    probe(name, lambda: socket.getaddrinfo(name, 443))
""",
                environment={"TARGETS": json.dumps(targets)},
            )
            assert len(results) >= len(targets) + 3, results


def service_address(client: ApiClient) -> str:
    service = client.get("/api/v1/namespaces/default/services/kubernetes")
    return str(service["spec"]["clusterIP"])


async def test_devices_pipes_and_links_of_results_do_no_harm(harness: SandboxHarness) -> None:
    outside = harness.private / "outside"
    outside.write_text("kept")
    (harness.workspace / "link").symlink_to("kept")
    report = await harness.run(
        "python3",
        "-c",
        PROBE
        + f"""
os.mkfifo("pipe"); os.mkfifo(os.environ["AGENTJOBS_ARTIFACTS"] + "/pipe")
socket.socket(socket.AF_UNIX).bind("socket")
probe("a device", lambda: os.mknod("device", 0o20666, os.makedev(1, 1)))
os.symlink("/etc", "etc"); os.symlink({str(outside)!r}, "outside"); os.symlink("..", "up")
os.unlink("link"); os.symlink({str(outside)!r}, "link")
open("file", "w").write("written"); os.link("file", "second")
""",
    )
    assert report.exit_code == 0, harness.output
    assert b"REACHED" not in harness.output
    names = {path.name: path for path in harness.workspace.iterdir()}
    assert set(names) == {"etc", "outside", "up", "link", "file", "second"}
    assert {name for name, path in names.items() if path.is_symlink()} == {
        *("etc", "outside", "up", "link")
    }
    assert outside.read_text() == "kept"
    assert list(harness.artifacts_dir.iterdir()) == []
