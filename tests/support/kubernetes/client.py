"""A plain client of an API server, for tests of the server itself and for what they prepare."""

import base64
import json
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.kubernetes.objects import Object

AGENT_IMAGE = "localhost/agentjobs-agent:test"


class ApiClient:
    """With the first context of a kubeconfig, in a namespace of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self._cluster = config["clusters"][0]["cluster"]
        self.http = self.connect(config["users"][0]["user"])
        self.namespace = f"tests-{secrets.token_hex(4)}"
        self.post("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def connect(self, user: Mapping[str, str]) -> httpx.Client:
        """Another connection, as this user of a kubeconfig."""
        token = user.get("token")
        has_tls = "certificate-authority-data" in self._cluster
        return httpx.Client(
            base_url=self._cluster["server"],
            headers={"Authorization": f"Bearer {token}"} if token else {},
            verify=has_tls and _tls(self._cluster, user),
            timeout=60,
            trust_env=False,
        )

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def close(self) -> None:
        self.http.delete(f"/api/v1/namespaces/{self.namespace}")
        self.http.close()

    def get(self, path: str, **query: str) -> Object:
        return _checked(self.http.get(path, params=query))

    def post(self, path: str, item: Object) -> Object:
        return _checked(self.http.post(path, json=item))

    def delete(self, path: str, **options: Any) -> Object:
        return _checked(self.http.request("DELETE", path, json=options))

    def create_pod(self, *command: str, name: str = "pod", **changes: Any) -> Object:
        """Waits for the namespace's service account, which a real cluster creates a bit later."""
        deadline = time.monotonic() + 30
        while True:
            response = self.http.post(self.pods, json=pod_object(name, *command, **changes))
            if response.status_code != 403 or time.monotonic() > deadline:
                return _checked(response)
            time.sleep(0.05)

    def wait_for_pod(self, condition: Callable[[Object], bool], name: str = "pod") -> Object:
        """Until its status fulfils the condition."""
        pod: Object = {}
        for event in self.watch(self.pods, fieldSelector=f"metadata.name={name}", seconds=60):
            pod = event["object"]
            if condition(pod.get("status", {})):
                return pod
        raise AssertionError(f"it did not happen: {pod}")

    def watch(self, path: str, seconds: float = 20, **query: str) -> Iterator[Object]:
        params = {"watch": "true", "timeoutSeconds": str(int(seconds)), **query}
        with self.http.stream("GET", path, params=params) as response:
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                yield json.loads(line)


def pod_object(name: str, *command: str, **changes: Any) -> Object:
    """A small one; `changes` are fields of its `spec`, `labels` those of its metadata."""
    security = {
        "runAsUser": 23_456,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    container = {
        "name": "main",
        "image": AGENT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command or ("sleep", "1000")),
        "securityContext": security,
        **changes.pop("container", {}),
    }
    metadata = {"name": name, "labels": changes.pop("labels", {"app": "tests"})}
    spec = {"containers": [container], "restartPolicy": "Never", **changes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _checked(response: httpx.Response) -> Object:
    assert response.is_success, response.text
    item: Object = response.json()
    return item


def _tls(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as file:
            for field in ("client-certificate-data", "client-key-data"):
                file.write(base64.b64decode(user[field]) + b"\n")
            file.flush()
            context.load_cert_chain(file.name)
    return context
