"""What happens to pods and nodes of real clusters, done to the test cluster."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from tests.kubernetes import configuration
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.configuration import CONTAINERD_SOCKET, NODE
from tests.kubernetes.images import BUSYBOX_IMAGE
from tests.kubernetes.namespaces import CommandFailed, wait_for
from tests.kubernetes.pods import DEFAULT, run_pod, wait_for_phase

# No registry listens there.
UNPULLABLE_IMAGE = "localhost/missing:test"
_PREEMPTING = "preempting"
_OTHER_NODE = "other"


def delete_pod(cluster: Cluster, name: str, namespace: str = DEFAULT) -> None:
    cluster.kubectl("delete", "pod", name, f"--namespace={namespace}", "--now", "--wait=false")


def evict(cluster: Cluster, name: str, namespace: str = DEFAULT) -> None:
    """As `kubectl drain` does."""
    metadata = {"name": name, "namespace": namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(eviction))


@contextmanager
def preempted(cluster: Cluster) -> Iterator[None]:
    """A pod of a higher priority requests all CPUs of the node."""
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": _PREEMPTING},
        "value": 1_000_000,
    }
    cluster.kubectl("apply", "-f", "-", text=json.dumps(priority))
    cpus = _node(cluster)["status"]["allocatable"]["cpu"]
    run_pod(
        cluster,
        _PREEMPTING,
        {
            "image": BUSYBOX_IMAGE,
            "command": ["sleep", "1000000"],
            "resources": {"requests": {"cpu": cpus}},
        },
        priorityClassName=_PREEMPTING,
        terminationGracePeriodSeconds=0,
    )
    try:
        yield
    finally:
        cluster.kubectl("delete", "pod", _PREEMPTING, "--now", "--ignore-not-found")
        cluster.kubectl("delete", "priorityclass", _PREEMPTING, "--ignore-not-found")


@contextmanager
def memory_pressure(cluster: Cluster) -> Iterator[None]:
    """kubelet evicts pods, because it is told to keep more memory free than there is."""
    file = cluster.run_directory / "kubelet.json"
    settings = json.loads(file.read_text())
    # A hard threshold would make the node smaller, so that it would refuse the pods instead.
    settings["evictionSoft"] = {"memory.available": "99%"}
    settings["evictionSoftGracePeriod"] = {"memory.available": "1s"}
    _restart_kubelet(cluster, json.dumps(settings))
    try:
        yield
    finally:
        settings = configuration.kubelet(cluster.run_directory, cluster.addresses)
        _restart_kubelet(cluster, settings)
        wait_for(lambda: not _has_condition(cluster, "MemoryPressure"), "the node has no memory")


@contextmanager
def stopped_kubelet(cluster: Cluster) -> Iterator[None]:
    """The node does not answer, while its pods run on. After 8 s it is not ready, and 5 s later
    its pods are deleted, which only the node can complete."""
    with _another_node(cluster):
        stop_kubelet(cluster)
        try:
            yield
        finally:
            cluster.start_kubelet()
            wait_for(lambda: _has_condition(cluster, "Ready"), "the node did not return")
            wait_for(lambda: not _node(cluster)["spec"].get("taints"), "it stayed unreachable")


@contextmanager
def lost_node(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Everything on it ends: kubelet stops, and the pods of the namespace are killed."""
    names = cluster.kubectl("get", "pods", f"--namespace={namespace}", "-o", "name").split()
    with stopped_kubelet(cluster):
        for name in names:
            kill_shim(cluster, name.removeprefix("pod/"), namespace)
        yield


@contextmanager
def _another_node(cluster: Cluster) -> Iterator[None]:
    """Where no node answers, Kubernetes deletes no pods: it blames its own network."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": _OTHER_NODE},
        "spec": {"unschedulable": True},
    }
    cluster.kubectl("apply", "-f", "-", text=json.dumps(node))
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(1):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
            patch = json.dumps({"status": {"conditions": [ready]}})
            cluster.kubectl("patch", "node", _OTHER_NODE, "--subresource=status", "-p", patch)

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        cluster.kubectl("delete", "node", _OTHER_NODE)


def stop_kubelet(cluster: Cluster) -> None:
    cluster.namespaces.kill("kubelet")


@contextmanager
def restarted_kubelet(cluster: Cluster) -> Iterator[None]:
    stop_kubelet(cluster)
    cluster.start_kubelet()
    wait_for(lambda: _has_condition(cluster, "Ready"), "the node did not return")
    yield


@contextmanager
def restarted_containerd(cluster: Cluster) -> Iterator[None]:
    """Containers outlive it."""
    cluster.namespaces.kill("containerd")
    cluster.start_containerd()
    wait_for(lambda: _is_containerd_ready(cluster), "containerd did not return")
    yield


@contextmanager
def stopped_etcd(cluster: Cluster) -> Iterator[None]:
    """The API server can neither store nor read anything."""
    cluster.namespaces.kill("etcd")
    try:
        yield
    finally:
        cluster.start_etcd()
        wait_for(cluster.is_api_ready, "the API server did not recover")


@contextmanager
def stopped_api_server(cluster: Cluster) -> Iterator[None]:
    """Watches that resume afterwards with an old version get 410, if something changed."""
    cluster.namespaces.kill("kube-apiserver")
    try:
        yield
    finally:
        cluster.start_api_server()
        wait_for(cluster.is_api_ready, "the API server did not return")


def kill_shim(cluster: Cluster, name: str, namespace: str = DEFAULT) -> None:
    """Kills the process that holds the pod's containers."""
    sandbox = _sandbox(cluster, name, namespace)
    killed = [pid for pid in _processes_with(sandbox) if _kill(pid)]
    assert killed, f"{name} has no shim"


def kill_container(cluster: Cluster, name: str, namespace: str = DEFAULT) -> None:
    """Kills the first process of the pod's container, as the kernel would."""
    _ctr(cluster, "tasks", "kill", "--signal", "SIGKILL", _container(cluster, name, namespace))


def _container(cluster: Cluster, name: str, namespace: str) -> str:
    statuses = wait_for_phase(cluster, name, "Running", namespace)["containerStatuses"]
    identifier: str = statuses[0]["containerID"]
    return identifier.removeprefix("containerd://")


def _sandbox(cluster: Cluster, name: str, namespace: str) -> str:
    container = _container(cluster, name, namespace)
    information = json.loads(_ctr(cluster, "containers", "info", container))
    identifier: str = information["Spec"]["annotations"]["io.kubernetes.cri.sandbox-id"]
    return identifier


def _ctr(cluster: Cluster, *arguments: str) -> str:
    command = ("ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io")
    return cluster.namespaces.run(*command, *arguments)


def _is_containerd_ready(cluster: Cluster) -> bool:
    with suppress(CommandFailed):
        _ctr(cluster, "version")
        return True
    return False


def _processes_with(argument: str) -> Iterator[int]:
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (directory / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"containerd-shim-runc-v2") and argument.encode() in words:
                yield int(directory.name)


def _kill(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _restart_kubelet(cluster: Cluster, settings: str) -> None:
    stop_kubelet(cluster)
    (cluster.run_directory / "kubelet.json").write_text(settings)
    cluster.start_kubelet()


def _node(cluster: Cluster) -> dict[str, dict[str, dict[str, str]]]:
    node: dict[str, dict[str, dict[str, str]]]
    node = json.loads(cluster.kubectl("get", "node", NODE, "-o", "json"))
    return node


def _has_condition(cluster: Cluster, kind: str) -> bool:
    path = f'jsonpath={{.status.conditions[?(@.type=="{kind}")].status}}'
    return cluster.kubectl("get", "node", NODE, "-o", path) == "True"
