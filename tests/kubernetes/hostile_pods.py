"""A service whose hostile agents run in pods of the test cluster."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kubernetes.cluster import Cluster
from tests.support.hostile_service import HostileService, hostile_service
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient

SETTINGS = """
sandbox = "kubernetes"
kubernetes_namespace = "{namespace}"
kubernetes_image = "{image}"
kubernetes_worker_cidrs = ["0.0.0.0/0"]
# With them, the uids of agents on the node are not known beforehand.
kubernetes_user_namespaces = "off"
"""
# Far above those of other tests.
UIDS = range(1_500_000_000, 1_500_100_000)
HARMLESS = frozenset(
    (
        # Of the image, and the node's kernel, which a container may look at but not change.
        *("/var/lib", "/var/run", "/sys/class"),
        # Of the pod. Only the report and the artifacts go back to the worker.
        *("write /run/agentjobs/x", "remove the script"),
    )
)

# The node ends what holds a pod together after the pod was deleted. The supervisor of a deleted pod
# has already killed the agent.
FRAME = (b"/bin/busybox\0sleep\x002000000000\0", b"/usr/local/bin/agentjobs-supervisor\0")

# They have the same uid, so the limit has room for them, whether they exist or not.
SUPERVISOR_THREADS = 32


@contextlib.contextmanager
def hostile_pods(cluster: Cluster) -> Iterator[HostileService]:
    with (
        contextlib.closing(ApiClient(cluster.kubeconfig)) as client,
        tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as directory,
        hostile_service(
            Path(directory),
            SETTINGS.format(namespace=client.namespace, image=AGENT_IMAGE),
            {"KUBECONFIG": str(cluster.kubeconfig)},
            UIDS,
        ) as opened,
    ):
        yield dataclasses.replace(
            opened, harmless=HARMLESS, frame=FRAME, extra_processes=SUPERVISOR_THREADS
        )
