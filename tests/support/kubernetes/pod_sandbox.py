"""A sandbox whose commands run in pods, in a namespace of its own."""

import contextlib
import os
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.sandbox import KubernetesSandbox
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient


@contextlib.asynccontextmanager
async def pod_sandbox(kubeconfig: Path, **changes: Any) -> AsyncIterator[KubernetesSandbox]:
    """`changes` are fields of its settings. Its pods and its namespace are deleted at the end."""
    with (
        contextlib.closing(ApiClient(kubeconfig)) as client,
        tempfile.TemporaryDirectory(prefix="agentjobs-worker-") as directory,
        mock.patch.dict(os.environ, {"KUBECONFIG": str(kubeconfig)}),
    ):
        settings = ClusterSettings(
            **{
                "worker": f"tests-{secrets.token_hex(4)}",
                "namespace": client.namespace,
                "image": AGENT_IMAGE,
                "user_namespaces": "off",
                "worker_cidrs": ("0.0.0.0/0",),
                **changes,
            }
        )
        sandbox = KubernetesSandbox(settings, Path(directory))
        try:
            yield sandbox
        finally:
            await sandbox.close()
            for pod in client.get(client.pods)["items"]:
                client.http.delete(
                    f"{client.pods}/{pod['metadata']['name']}", params={"gracePeriodSeconds": 0}
                )
