"""Creates, follows and deletes pods. Waits while the API server is away."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
from lightkube import AsyncClient
from lightkube.core.client import LabelSelector
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.core_v1 import Pod, Secret

from agentjobs_kubernetes.api_client import open_client
from agentjobs_kubernetes.api_errors import status_code
from agentjobs_kubernetes.api_retries import OnWaiting, call_api
from agentjobs_kubernetes.cluster_settings import ClusterSettings
from agentjobs_kubernetes.labels import MANAGED_BY, MANAGER, WORKER, label_value
from agentjobs_kubernetes.pod_status import PodState, pod_state
from agentjobs_kubernetes.pod_watch import PodWatch
from agentjobs_kubernetes.pods import PodRequest, pod_manifest
from agentjobs_worker.sandbox.protocol import SandboxError

# Afterwards the deletion continues in the background.
_DELETE_WAIT_SECONDS = 2.0

R = TypeVar("R", bound=Pod | Secret)
T = TypeVar("T")

_log = logging.getLogger(__name__)


class Cluster:
    """One worker's access to the namespace for agents. Everything happens in one event loop."""

    def __init__(self, settings: ClusterSettings, client: AsyncClient) -> None:
        self.settings = settings
        self.client = client
        # `detect_user_namespaces` decides if the setting is `auto`.
        self.has_user_namespaces = settings.user_namespaces == "on"
        self._created_pods: set[str] = set()
        self._watch = PodWatch(
            client, settings.namespace, {MANAGED_BY: MANAGER, WORKER: label_value(settings.worker)}
        )
        self._creations: dict[str, asyncio.Future[Any]] = {}
        self._background: set[asyncio.Task[None]] = set()

    @classmethod
    def from_settings(cls, settings: ClusterSettings) -> Self:
        """Raises SandboxUnavailable."""
        return cls(settings, open_client(settings.namespace))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Deletions that have begun get a moment to finish."""
        await self._watch.close()
        if self._background:
            await asyncio.wait(self._background, timeout=_DELETE_WAIT_SECONDS)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.client.close()

    @property
    def own_namespace(self) -> str:
        """The namespace of the pod that this runs in; empty outside the cluster."""
        config = self.client.config
        return config.namespace if config.fname is None else ""

    @property
    def used_pods(self) -> set[str]:
        """Pods that this process created and did not delete, or that it follows."""
        return self._created_pods | self._watch.followed_pods

    async def create_pod(self, request: PodRequest, on_waiting: OnWaiting | None = None) -> str:
        """Its name, once the API server has it.

        Raises SandboxLost if that takes longer than `pending_seconds`, SandboxUnavailable if this
        worker may not, and SandboxError if no attempt can succeed.
        """
        manifest = pod_manifest(request, self.settings, has_user_namespace=self.has_user_namespaces)
        self._created_pods.add(request.name)
        try:
            pod = await self._create(manifest, "create a pod", on_waiting)
            image = request.task.image
            if image and image.registry_auth:
                # In time: the image is fetched after the supervisor was copied from ours.
                secret = _pull_secret(pod, image.registry_auth)
                await self._create(secret, "create a pull secret", on_waiting)
        except BaseException:
            # The answer to a request that created it may be lost.
            self._start(self._delete(request.name))
            raise
        self._watch.add(pod_state(pod))
        return request.name

    def watch_pod(self, name: str) -> AsyncIterator[PodState]:
        """The state now and after each change. The last one is that in which the pod is gone."""
        return self._watch.follow(name)

    async def delete_pod(self, name: str) -> None:
        """Returns after two seconds at most; the attempts continue if the API server is away."""
        await asyncio.wait({self._start(self._delete(name))}, timeout=_DELETE_WAIT_SECONDS)

    async def find_pods(self, labels: Mapping[str, str]) -> list[PodState]:
        """Pods of all workers. Raises as `create_pod` does."""
        selector: LabelSelector = {name: label_value(value) for name, value in labels.items()}
        selector[MANAGED_BY] = MANAGER

        async def list_pods() -> list[PodState]:
            pods = self.client.list(Pod, namespace=self.settings.namespace, labels=selector)
            return [pod_state(pod) async for pod in pods]

        return await self.call(list_pods, "list pods")

    async def _create(self, resource: R, action: str, on_waiting: OnWaiting | None) -> R:
        async def create() -> R:
            try:
                return await self._send(resource)
            except httpx2.HTTPStatusError as error:
                if status_code(error) != 409:
                    raise
                # An earlier attempt created it: names are unique.
                if isinstance(resource, Secret):
                    return resource
                assert resource.metadata is not None
                return await self.client.get(type(resource), str(resource.metadata.name))

        return await self.call(create, action, on_waiting)

    async def _send(self, resource: R) -> R:
        """Once: a request that is cancelled on its way could create it after its deletion."""
        name = str(resource.metadata and resource.metadata.name)
        request = asyncio.ensure_future(self.client.create(resource))
        self._creations[name] = request
        request.add_done_callback(lambda _: self._creations.pop(name, None))
        return await asyncio.shield(request)

    async def _delete(self, name: str) -> None:
        async def delete() -> None:
            try:
                await self.client.delete(Pod, name, grace_period=0)
            except httpx2.HTTPStatusError as error:
                if status_code(error) != 404:
                    raise

        action, namespace = f"delete the pod {name}", self.settings.namespace
        try:
            if (creation := self._creations.get(name)) is not None:
                await asyncio.wait({creation})
            await call_api(delete, action, namespace=namespace, give_up_seconds=None)
        except SandboxError as error:
            _log.warning("%s", error)
        finally:
            self._created_pods.discard(name)

    async def call(
        self,
        request: Callable[[], Awaitable[T]],
        action: str,
        on_waiting: OnWaiting | None = None,
        give_up_seconds: float | None = None,
    ) -> T:
        """Wait for the API server, for `pending_seconds` by default. Raises as `create_pod`."""
        return await call_api(
            request,
            action,
            namespace=self.settings.namespace,
            give_up_seconds=give_up_seconds or self.settings.pending_seconds,
            on_waiting=on_waiting,
        )

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _pull_secret(pod: Pod, registry_auth: str) -> Secret:
    """The cluster deletes it with the pod, even if this worker no longer runs."""
    metadata = pod.metadata
    assert metadata is not None
    name = str(metadata.name)
    owner = OwnerReference(apiVersion="v1", kind="Pod", name=name, uid=str(metadata.uid))
    return Secret(
        metadata=ObjectMeta(
            name=name,
            namespace=metadata.namespace,
            labels=metadata.labels,
            ownerReferences=[owner],
        ),
        type="kubernetes.io/dockerconfigjson",
        stringData={".dockerconfigjson": registry_auth},
    )
