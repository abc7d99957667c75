"""Images of a private registry: only a pod with the credential of its organization gets them."""

import base64
import json

import pytest

from agentjobs_kubernetes.cluster import Cluster as Access
from agentjobs_kubernetes.followed_pod import FollowedPod
from agentjobs_worker.sandbox.protocol import ImageUnavailable, RootImage
from kubernetes.tests.integration.test_cluster import (  # noqa: F401 - fixtures
    client,
    follow,
    is_running,
    request,
    settings,
    worker,
)
from tests.acceptance.test_environment_images import push, registry  # noqa: F401 - a fixture
from tests.kubernetes.test_cluster_access import kubeconfig  # noqa: F401 - a fixture
from tests.kubernetes.test_environments import name  # noqa: F401 - a fixture
from tests.support.image_registry import PASSWORD, USERNAME, ImageRegistry


@pytest.fixture(scope="module")
def reference(
    registry: ImageRegistry,  # noqa: F811 - a fixture
    name: str,  # noqa: F811 - a fixture
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    push(registry, tmp_path_factory.mktemp("image"), "acme/app:1", "etc/image", "app")
    return f"{name}/acme/app:1"


async def test_only_a_pod_with_the_credential_gets_a_private_image(
    worker: Access,  # noqa: F811 - a fixture
    reference: str,
) -> None:
    credential = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
    registry_auth = json.dumps({"auths": {reference.partition("/")[0]: {"auth": credential}}})
    allowed = RootImage(reference=reference, registry_auth=registry_auth)
    pod = await worker.create_pod(request(image=allowed))
    assert (await follow(worker, pod, is_running)).ip
    # The node has the image now, but asks the registry again for another pod.
    other = await worker.create_pod(request(image=RootImage(reference=reference)))
    notes: list[str] = []
    followed = FollowedPod(worker, other, notes.append)
    state = await followed.over
    await followed.close()
    assert isinstance(state.failure, ImageUnavailable), state
    # After a second attempt, which comes when kubelet has waited.
    assert [note for note in notes if "cannot be fetched (ImagePullBackOff)" in note]
    assert "cannot be fetched (ErrImagePull)" in str(state.failure)
