"""Runs pods for tests and waits for them."""

import json
from collections.abc import Mapping
from typing import Any

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.namespaces import wait_for

DEFAULT = "default"


def run_pod(
    cluster: Cluster,
    name: str,
    container: Mapping[str, Any],
    *,
    namespace: str = DEFAULT,
    labels: Mapping[str, str] | None = None,
    **fields: Any,
) -> None:
    """`fields` are further ones of the pod's spec."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", **container}], **fields}
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    cluster.kubectl(
        "delete", "pod", name, f"--namespace={namespace}", "--ignore-not-found", "--now"
    )
    account = ("get", "serviceaccount", "default", f"--namespace={namespace}", "--ignore-not-found")
    wait_for(lambda: cluster.kubectl(*account), "the namespace has no service account")
    cluster.kubectl("create", "-f", "-", text=json.dumps(pod))


def status(cluster: Cluster, name: str, namespace: str = DEFAULT) -> dict[str, Any]:
    pod = cluster.kubectl("get", "pod", name, f"--namespace={namespace}", "-o", "json")
    answer: dict[str, Any] = json.loads(pod)["status"]
    return answer


def wait_for_phase(
    cluster: Cluster, name: str, phase: str, namespace: str = DEFAULT
) -> dict[str, Any]:
    wait_for(lambda: status(cluster, name, namespace)["phase"] == phase, f"{name} is not {phase}")
    return status(cluster, name, namespace)
