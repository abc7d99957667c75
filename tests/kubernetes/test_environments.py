"""Environments on a cluster: images of a private registry, setup, and services."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_environment_images import (  # noqa: F401 - collected here too
    AGENTS,
    CONFIGURATION,
    push,
    registry,
    test_agent_checks_and_services_run_in_images_of_a_private_registry,
)
from tests.kubernetes.cluster import Cluster
from tests.support.environments import EnvironmentService, environment_service
from tests.support.image_registry import ImageRegistry
from tests.support.kubernetes.client import AGENT_IMAGE, ApiClient
from tests.support.package_index import PRIVATE_ADDRESSES


@pytest.fixture(scope="module")
def name(registry: ImageRegistry, cluster: Cluster) -> str:  # noqa: F811 - a fixture
    """The cluster knows that it is reached over plain HTTP, and where."""
    name = f"{socket.gethostname()}:{registry.port}"
    directory = cluster.run_directory / "registries" / name
    directory.mkdir()
    address = f"http://{cluster.addresses.machine}:{registry.port}"
    (directory / "hosts.toml").write_text(f'server = "{address}"\n[host."{address}"]\n')
    return name


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[ApiClient]:
    api = ApiClient(cluster.kubeconfig)
    yield api
    api.close()


@pytest.fixture(scope="module")
def environments(
    name: str, cluster: Cluster, api: ApiClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnvironmentService]:
    with environment_service(
        tmp_path_factory.mktemp("images"),
        AGENTS,
        AGENTJOBS_EGRESS_ALLOW=PRIVATE_ADDRESSES,
        AGENTJOBS_INSECURE_REGISTRIES=name,
        AGENTJOBS_SANDBOX="kubernetes",
        AGENTJOBS_KUBERNETES_NAMESPACE=api.namespace,
        AGENTJOBS_KUBERNETES_IMAGE=AGENT_IMAGE,
        AGENTJOBS_KUBERNETES_WORKER_CIDRS=f"{cluster.addresses.machine}/32",
        KUBECONFIG=str(cluster.kubeconfig),
    ) as environments:
        yield environments


def test_the_credential_of_a_registry_is_gone_with_its_pods(
    environments: EnvironmentService, api: ApiClient, name: str
) -> None:
    assert environments.builds("acme/shop")[-1]["state"] == "ready", "the test above ran before"
    assert api.get(api.pods)["items"] == []
    assert api.get(f"/api/v1/namespaces/{api.namespace}/secrets")["items"] == []


def test_an_image_that_is_gone_from_its_registry_fails_the_job(
    registry: ImageRegistry,  # noqa: F811 - a fixture
    environments: EnvironmentService,
    name: str,
    tmp_path: Path,
) -> None:
    push(registry, tmp_path / "image", "acme/gone:1", "etc/image", "gone")
    text = f'[environment]\nimage = "{name}/acme/gone:1"\n'
    environments.connect("acme/gone", {".agentjobs.toml": text})
    _remove_blobs(registry.storage)
    message = environments.environment_error("acme/gone", "builder")
    assert "does not have it" in message, message


def _remove_blobs(storage: Path) -> None:
    """Manifests and configurations stay; the layers of `gone` cannot be downloaded."""
    for blob in (storage / "docker/registry/v2/blobs").rglob("data"):
        if blob.read_bytes()[:1] != b"{":
            blob.unlink()
