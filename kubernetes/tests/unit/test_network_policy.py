"""Who may connect to the pods of agents."""

from typing import Any

import pytest

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.network_policy import network_policy

LABELS = {"app": "agentjobs-worker"}
PODS = {"podSelector": {"matchLabels": LABELS}}
OWN = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agentjobs"}}}


def spec_of(own_namespace: str = "", **changes: Any) -> dict[str, Any]:
    settings = ClusterSettings(worker="w", image="i", **changes)
    spec: dict[str, Any] = network_policy(settings, own_namespace).to_dict()["spec"]
    return spec


def test_nothing_leaves_a_pod_and_only_the_supervisor_is_reached() -> None:
    spec = spec_of(worker_labels=LABELS)
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in spec
    (rule,) = spec["ingress"]
    assert rule["ports"] == [{"port": 8463, "protocol": "TCP"}]
    assert spec["podSelector"] == {"matchLabels": {"app.kubernetes.io/managed-by": "agentjobs"}}


@pytest.mark.parametrize(
    ("own_namespace", "changes", "peers"),
    [
        ("agentjobs", {"worker_labels": LABELS}, [{**OWN, **PODS}]),
        ("agentjobs", {}, [OWN]),
        ("", {"worker_labels": LABELS}, [{"namespaceSelector": {}, **PODS}]),
        ("", {"worker_cidrs": ("10.1.0.0/16",)}, [{"ipBlock": {"cidr": "10.1.0.0/16"}}]),
    ],
)
def test_only_workers_may_connect(
    own_namespace: str, changes: dict[str, Any], peers: list[dict[str, Any]]
) -> None:
    assert spec_of(own_namespace, **changes)["ingress"][0]["from"] == peers


def test_workers_that_nothing_describes_can_still_connect() -> None:
    assert "from" not in spec_of()["ingress"][0]
