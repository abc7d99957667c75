"""Pods of a cluster as the sandbox of attacked services."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from tests.support.attacked_sandbox import AttackedSandbox
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient

# Far above those of other tests.
FIRST_UID = 1_500_000_000
# Pods have random ones of so many.
UIDS = 100_000
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
def attacked_pods(kubeconfig: Path, *, is_in_memory: bool) -> Iterator[AttackedSandbox]:
    # Tests of another cluster may run on this machine.
    first_uid = FIRST_UID + secrets.randbelow(1000) * UIDS
    with contextlib.closing(ApiClient(kubeconfig)) as client:
        yield AttackedSandbox(
            variables={
                "KUBECONFIG": str(kubeconfig),
                "AGENTJOBS_SANDBOX": "kubernetes",
                "AGENTJOBS_KUBERNETES_NAMESPACE": client.namespace,
                "AGENTJOBS_KUBERNETES_IMAGE": AGENT_IMAGE,
                "AGENTJOBS_KUBERNETES_WORKER_CIDRS": "0.0.0.0/0",
                # With them, the uids of agents on the node are not known beforehand.
                "AGENTJOBS_KUBERNETES_USER_NAMESPACES": "off",
            },
            uids=range(first_uid, first_uid + UIDS),
            harmless=HARMLESS,
            frame=FRAME,
            extra_processes=SUPERVISOR_THREADS,
            # The root of the image.
            overlays=0 if is_in_memory else 1,
            # One connection carries all others of a pod.
            connection_descriptors=0,
        )
