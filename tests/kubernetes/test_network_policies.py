"""The stand-in for a network that enforces NetworkPolicies, and its absence."""

import json
import socket
from collections.abc import Iterator

import pytest

from tests.kubernetes import network_policies
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import DEBIAN_IMAGE
from tests.kubernetes.namespaces import wait_for
from tests.kubernetes.pods import run_pod, wait_for_phase

NAMESPACE = "policies"
SERVE = ["python3", "-m", "http.server", "8463"]
# Prints a line per address: whether a connection could be opened.
DIAL = """
import socket, sys
for address in sys.argv[1:]:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
        print("open", flush=True)
    except OSError:
        print("closed", flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def policy(cluster: Cluster) -> Iterator[None]:
    """As the service's: no egress, and ingress to one port from this machine only."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    workers = [{"ipBlock": {"cidr": f"{cluster.addresses.machine}/32"}}]
    rule = {"from": workers, "ports": [{"port": 8463, "protocol": "TCP"}]}
    spec = {
        "podSelector": {"matchLabels": {"isolated": "yes"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [rule],
    }
    metadata = {"name": "agents", "namespace": NAMESPACE}
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    cluster.kubectl(
        "create", "-f", "-", text=json.dumps({**kind, "metadata": metadata, "spec": spec})
    )
    yield
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def serve(cluster: Cluster, name: str, *, is_isolated: bool) -> str:
    labels = {"isolated": "yes"} if is_isolated else {}
    container = {"image": DEBIAN_IMAGE, "command": SERVE}
    run_pod(cluster, name, container, namespace=NAMESPACE, labels=labels)
    address: str = wait_for_phase(cluster, name, "Running", NAMESPACE)["podIP"]
    return address


def dial(cluster: Cluster, name: str, *addresses: str) -> list[str]:
    command = ("exec", name, "--namespace", NAMESPACE, "--", "python3", "-c", DIAL)
    return cluster.kubectl(*command, *addresses).split()


def connects(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 2).close()
    except OSError:
        return False
    return True


def test_policies_hold_only_while_they_are_enforced(cluster: Cluster) -> None:
    open_pod = serve(cluster, "open", is_isolated=False)
    services = (f"{cluster.addresses.api_service}:443", f"{cluster.addresses.node}:10250")
    targets = (*services, f"{open_pod}:8463")
    with network_policies.enforced(cluster):
        isolated = serve(cluster, "isolated", is_isolated=True)
        wait_for(lambda: connects(isolated, 8463), "a worker does not reach the pod")
        assert dial(cluster, "isolated", *targets, "127.0.0.1:8463") == ["closed"] * 3 + ["open"]
        assert dial(cluster, "open", *services, f"{isolated}:8463") == ["open", "open", "closed"]
    assert dial(cluster, "isolated", *targets) == ["open"] * 3
    assert dial(cluster, "open", f"{isolated}:8463") == ["open"]


def test_a_running_pod_gets_the_rules_too(cluster: Cluster) -> None:
    serve(cluster, "earlier", is_isolated=True)
    target = f"{cluster.addresses.node}:10250"
    assert dial(cluster, "earlier", target) == ["open"]
    with network_policies.enforced(cluster):
        wait_for(lambda: dial(cluster, "earlier", target) == ["closed"], "the pod has no rules")
