"""Volumes for pods of a test cluster."""

import contextlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

from tests.kubernetes.cluster import Cluster


@contextlib.contextmanager
def claimed_directory(cluster: Cluster, namespace: str, claim: str, path: Path) -> Iterator[None]:
    """A claim whose volume is a directory of this machine."""
    name = f"{claim}-{secrets.token_hex(4)}"
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        **shared,
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": str(path), "type": "Directory"},
        "claimRef": {"namespace": namespace, "name": claim},
    }
    request = {**shared, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    for kind, metadata, spec in (
        ("PersistentVolume", {"name": name}, volume),
        ("PersistentVolumeClaim", {"name": claim, "namespace": namespace}, request),
    ):
        item = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
        cluster.kubectl("create", "-f", "-", text=json.dumps(item))
    try:
        yield
    finally:
        options = (f"--namespace={namespace}", "--ignore-not-found", "--wait=false")
        cluster.kubectl("delete", "persistentvolumeclaim", claim, *options)
        cluster.kubectl("delete", "persistentvolume", name, "--wait=false")
