"""The chart installed for real: images of the Containerfile, PostgreSQL and a load balancer."""

import json
import random
import re
import secrets
import shutil
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.container import harness
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.configuration import CONTAINERD_SOCKET
from tests.kubernetes.helm import RELEASE, Helm
from tests.kubernetes.relay import Address, relay
from tests.support.postgres import PostgresCluster

SERVICE_IMAGE = "localhost/agentjobs:release"
AGENT_IMAGE = "localhost/agentjobs-agent:release"
_UID = 10001
# Small, because the node of a test has two cores.
_RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}}


@dataclass
class Release:
    cluster: Cluster
    helm: Helm
    url: str
    values: dict[str, Any]
    key: str = field(default="", repr=False)

    @property
    def namespace(self) -> str:
        return self.helm.namespace

    @property
    def agents_namespace(self) -> str:
        return f"{self.namespace}-agents"

    def install(self, **values: Any) -> str:
        return self.helm.install({**self.values, **values})

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments)

    def run(self, component: str, *command: str) -> str:
        """In the first pod of a component."""
        return self.kubectl("exec", f"deploy/{RELEASE}-{component}", "--", *command)

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Those that are not being deleted."""
        selector = f"app.kubernetes.io/component={component}"
        items = json.loads(self.kubectl("get", "pods", "--selector", selector, "-o", "json"))
        return [pod for pod in items["items"] if "deletionTimestamp" not in pod["metadata"]]

    def run_documented(self, script: str, directory: Path) -> str:
        """Commands of docs/kubernetes.md, in the namespaces of this release."""
        for option in ("-n", "--namespace"):
            script = script.replace(
                f"{option} agentjobs-agents", f"{option} {self.agents_namespace}"
            )
            script = re.sub(rf"{option} agentjobs(?=\s)", f"{option} {self.namespace}", script)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=directory,
            env=self.helm.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stderr[-2000:]}"
        return done.stdout

    def kill_container(self, component: str) -> None:
        identifier = self.pods(component)[0]["status"]["containerStatuses"][0]["containerID"]
        tasks = ("ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", "tasks")
        name = identifier.rpartition("/")[2]
        self.cluster.namespaces.run(*tasks, "kill", "--signal", "SIGKILL", name)

    def client(self) -> httpx.Client:
        if not self.key:
            self.key = self.run("serve", "agentjobs", "keys", "create").strip()
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=70)

    def connect_repository(self, name: str) -> None:
        """A repository whose unused import the lint-fixer removes."""
        path = f"/tmp/{secrets.token_hex(4)}"
        script = (
            f"git init -q -b main {path} && cd {path} && printf 'import os\\n' > shop.py"
            " && git add . && git -c user.name=A -c user.email=a@b.c commit -qm Start"
            f" && agentjobs repos connect {path} --name {name} --wait && rm -rf {path}"
        )
        self.run("serve", "sh", "-c", script)


class AvailabilityCheck:
    """Requests one after the other from a thread; `failures` has what went wrong."""

    def __init__(self, url: str) -> None:
        self.failures: list[str] = []
        self.successes = 0
        self._url = url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._check)

    def __enter__(self) -> "AvailabilityCheck":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _check(self) -> None:
        while not self._ended.wait(0.05):
            try:
                httpx.get(f"{self._url}/readyz", timeout=30).raise_for_status()
            except httpx.HTTPError as error:
                self.failures.append(repr(error))
            else:
                self.successes += 1


def load_images(cluster: Cluster) -> None:
    """Builds both images with the layers of the last build, and copies them to the node."""
    harness.prepare_storage()
    base = f"BASE={harness.base_image()}"
    directory = cluster.directory / "images"
    for name, target in ((SERVICE_IMAGE, "service"), (AGENT_IMAGE, "agent")):
        options = ("--layers", "--target", target, "--build-arg", base, *harness.BUILD_OPTIONS)
        harness.run(harness.PACKAGING / "build", name, *options)
        archive = directory / f"{target}.tar"
        archive.unlink(missing_ok=True)
        harness.run("buildah", "push", name, f"docker-archive:{archive}:{name}")
        cluster.load_image(archive)
        archive.unlink()


@contextmanager
def prepared_release(cluster: Cluster, namespace: str, directory: Path) -> Iterator[Release]:
    """Everything that the chart expects to exist; `install` is left to the test."""
    helm = Helm(cluster, namespace, directory)
    machine = cluster.addresses.machine
    postgres = PostgresCluster()
    postgres.start()
    cluster.kubectl("create", "namespace", namespace)
    try:
        with (
            relay(machine, lambda: ("127.0.0.1", postgres.port)) as database,
            relay(machine, lambda: _find_endpoint(cluster, namespace)) as public,
            _volume(cluster, namespace, directory),
        ):
            name = postgres.create_database()
            _create_secret(cluster, namespace, f"postgresql://agentjobs@{_text(database)}/{name}")
            url = f"http://{_text(public)}"
            release = Release(cluster, helm, url, _values(url, namespace))
            yield release
            helm.uninstall()
    finally:
        cluster.kubectl(
            "delete", "namespace", namespace, f"{namespace}-agents", "--ignore-not-found"
        )
        postgres.remove()


def _values(url: str, namespace: str) -> dict[str, Any]:
    service, _, tag = SERVICE_IMAGE.rpartition(":")
    agent, _, agent_tag = AGENT_IMAGE.rpartition(":")
    return {
        "publicUrl": url,
        "image": {"repository": service, "tag": tag, "pullPolicy": "Never"},
        "agents": {"image": {"repository": agent, "tag": agent_tag, "pullPolicy": "Never"}},
        "repositories": {"storageClass": namespace, "size": "1Gi", "keep": False},
        "serve": {"resources": _RESOURCES},
        "worker": {"resources": _RESOURCES, "replicas": 1, "slots": 4, "drainGraceSeconds": 10},
        # The tests' agents are small, and so is the node.
        "config": {"limit_memory_mib": 512, "limit_workspace_mib": 512},
    }


def _create_secret(cluster: Cluster, namespace: str, database_url: str) -> None:
    key = b64encode(secrets.token_bytes(32)).decode()
    data = (f"--from-literal=database-url={database_url}", f"--from-literal=encryption-key={key}")
    cluster.kubectl("--namespace", namespace, "create", "secret", "generic", RELEASE, *data)


@contextmanager
def _volume(cluster: Cluster, namespace: str, directory: Path) -> Iterator[None]:
    """A directory of the node, which stands for a network volume."""
    path = directory / "repositories"
    path.mkdir()
    shutil.chown(path, _UID, _UID)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": namespace,
            "hostPath": {"path": str(path)},
        },
    }
    cluster.kubectl("create", "-f", "-", text=json.dumps(volume))
    try:
        yield
    finally:
        cluster.kubectl("delete", "persistentvolume", namespace, "--wait=false")


def _find_endpoint(cluster: Cluster, namespace: str) -> Address:
    """A ready pod of the Service: the cluster of the tests has no kube-proxy."""
    selector = f"kubernetes.io/service-name={RELEASE}"
    options = ("--namespace", namespace, "--selector", selector, "-o", "json")
    slices = json.loads(cluster.kubectl("get", "endpointslices", *options))["items"]
    addresses = [
        address
        for each in slices
        for endpoint in each["endpoints"] or ()
        if endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
    ]
    if not addresses:
        raise ConnectionRefusedError("no pod is ready")
    return random.choice(addresses), 8080


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
