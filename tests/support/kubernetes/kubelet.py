"""The node of the in-memory cluster: places pods, runs their containers, and reports on them."""

import asyncio
import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentjobs_runtime.files.removal import remove
from tests.support.kubernetes.objects import ApiError, Object, Objects, timestamp
from tests.support.kubernetes.pod_network import PodAddress, SocketOpener
from tests.support.kubernetes.pod_process import ContainerProcess

NODE = "node-1"
# Nothing listens there, and no name has to be resolved, which can take a minute.
_log = logging.getLogger(__name__)
NO_REGISTRY = "127.0.0.1:1/"
# How long a failed pull is an error, before it becomes a wait for the next one.
BACK_OFF_SECONDS = 0.05
_NO_NODE = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
_REFERENCE = re.compile(
    r"[a-z0-9][\w.\-]*(:[0-9]+)?(/[a-z0-9._\-]+)*(:[\w.\-]+)?(@sha256:[0-9a-f]{64})?"
)
_Status = dict[str, Any]


class Kubelet:
    """`unavailable_images` maps references to why they cannot be pulled; all others exist.

    Those of NO_REGISTRY cannot be pulled either, as on any machine.
    """

    def __init__(self, objects: Objects, directory: Path) -> None:
        self.unavailable_images: dict[str, str] = {}
        self.labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}
        self.opener = SocketOpener()
        self.objects = objects
        # Tells the API server that a pod has ended after its deletion.
        self.delete: Callable[[Object], object] = lambda _pod: None
        self.directory = directory
        self.pods: dict[str, RunningPod] = {}
        self._following = asyncio.ensure_future(self._follow())

    async def close(self) -> None:
        self._following.cancel()
        for pod in self.pods.values():
            pod.kill()
        await asyncio.gather(*(pod.running for pod in self.pods.values()), return_exceptions=True)
        self.opener.close()

    def end(self, pod: Object, grace_seconds: int) -> bool:
        """True: the pod runs, and its object is deleted when it has ended."""
        running = self.pods.get(pod["metadata"]["uid"])
        if running is None or running.running.done():
            return False
        running.is_deleted = True
        running.kill_after(grace_seconds)
        return grace_seconds > 0

    def log_of(self, pod: Object) -> bytes:
        running = self.pods.get(pod["metadata"]["uid"])
        return b"" if running is None else running.log

    def pod(self, namespace: str, name: str) -> "RunningPod":
        return self.pods[self.objects.get("pods", namespace, name)["metadata"]["uid"]]

    def image_problem(self, container: Object) -> tuple[str, str] | None:
        """The reason and the message of a waiting container."""
        image = container["image"]
        if not _REFERENCE.fullmatch(image):
            return "InvalidImageName", f'Failed to apply default image tag "{image}": invalid'
        message = self.unavailable_images.get(image)
        if message is None and image.startswith(NO_REGISTRY):
            message = f'failed to pull and unpack image "{image}": connection refused'
        return None if message is None else ("ErrImagePull", message)

    async def _follow(self) -> None:
        """By what exists, not by changes, which a compaction may have removed."""
        while True:
            existing = {pod["metadata"]["uid"]: pod for pod in self.objects.list("pods")}
            for uid in existing.keys() - self.pods.keys():
                self.pods[uid] = RunningPod(existing[uid], self)
            for uid in self.pods.keys() - existing.keys():
                self.pods[uid].kill()
                if self.pods[uid].running.done():
                    del self.pods[uid]
            await self.objects.wait_for_change()


class RunningPod:
    """One pod of the node, until it has ended. Tests call `kill` and `fail` for what happens."""

    def __init__(self, pod: Object, kubelet: Kubelet) -> None:
        self.name: str = pod["metadata"]["name"]
        self._uid: str = pod["metadata"]["uid"]
        self.is_deleted = False
        self._pod = pod
        self._spec: Object = pod["spec"]
        self._kubelet = kubelet
        self._process: ContainerProcess | None = None
        self._killed = asyncio.Event()
        self._end: _Status = {}
        self._kill_reason = ""
        self._timers: list[asyncio.TimerHandle] = []
        self._back_off_seconds = BACK_OFF_SECONDS
        self.running = asyncio.ensure_future(self._run())

    @property
    def log(self) -> bytes:
        return b"" if self._process is None else self._process.log

    def kill(self, reason: str = "") -> None:
        """`reason` is that of the container's end, such as OOMKilled."""
        self._kill_reason = self._kill_reason or reason
        self._killed.set()
        if self._process is not None:
            self._process.kill()

    def kill_after(self, seconds: float) -> None:
        """Supervisors ignore the signal that others get before."""
        self._timers.append(asyncio.get_running_loop().call_later(seconds, self.kill))

    def fail(self, reason: str, message: str) -> None:
        """The pod's status says why, such as Evicted."""
        self._end = {"phase": "Failed", "reason": reason, "message": message}
        self.kill()

    async def _run(self) -> None:
        directory = Path(tempfile.mkdtemp(dir=self._kubelet.directory))
        directory.chmod(0o755)
        preparing = asyncio.ensure_future(self._prepare())
        killed = asyncio.ensure_future(self._killed.wait())
        try:
            await asyncio.wait({preparing, killed}, return_when=asyncio.FIRST_COMPLETED)
            if self._killed.is_set():
                self._report({"phase": "Failed", **self._end})
            else:
                await self._run_containers(self._make_volumes(directory))
        finally:
            preparing.cancel()
            killed.cancel()
            for timer in self._timers:
                timer.cancel()
            await asyncio.to_thread(remove, directory)
            if self.is_deleted and self._exists():
                self._kubelet.delete(self._pod)

    async def _prepare(self) -> None:
        """Returns when the containers can be started, which may be never."""
        selector = self._spec.get("nodeSelector") or {}
        if not selector.items() <= self._kubelet.labels.items():
            self._report(_condition("False", reason="Unschedulable", message=_NO_NODE))
            await asyncio.Event().wait()
        self._change(lambda pod: pod["spec"].update(nodeName=NODE))
        self._report(
            {**_condition("True"), "hostIP": "127.0.0.1"},
            {"waiting": {"reason": "ContainerCreating"}},
        )
        for container in (*self._spec.get("initContainers", ()), *self._spec["containers"]):
            while (problem := self._kubelet.image_problem(container)) is not None:
                await self._wait_for_image(container, *problem)

    async def _wait_for_image(self, container: Object, reason: str, message: str) -> None:
        """Until the next attempt, if there is one."""
        self._report({}, {"waiting": {"reason": reason, "message": message}}, container)
        if reason != "ErrImagePull":
            await asyncio.Event().wait()
        await asyncio.sleep(BACK_OFF_SECONDS)
        message = f'Back-off pulling image "{container["image"]}": {message}'
        self._report({}, {"waiting": {"reason": "ImagePullBackOff", "message": message}}, container)
        self._back_off_seconds *= 2
        await asyncio.sleep(self._back_off_seconds)

    def _make_volumes(self, directory: Path) -> dict[str, Path]:
        volumes = {}
        for volume in self._spec.get("volumes", ()):
            if volume.get("emptyDir", {}).get("medium") == "Memory":
                continue
            path = directory / volume["name"]
            if "persistentVolumeClaim" in volume:
                path = self._kubelet.directory / volume["persistentVolumeClaim"]["claimName"]
            if not path.is_dir():
                path.mkdir()
                path.chmod(0o777)
            volumes[volume["name"]] = path
        return volumes

    async def _run_containers(self, volumes: dict[str, Path]) -> None:
        address = PodAddress(self._kubelet.opener)
        try:
            for container in self._spec.get("initContainers", ()):
                ended = await self._run_container(container, volumes, None)
                self._report({}, {"terminated": ended}, container)
                if ended["exitCode"]:
                    self._report({"phase": "Failed", **self._end})
                    return
            (container,) = self._spec["containers"]
            ended = await self._run_container(container, volumes, address)
            phase = "Failed" if ended["exitCode"] else "Succeeded"
            self._report({"phase": phase, **self._end}, {"terminated": ended})
        finally:
            await address.close()

    async def _run_container(
        self, container: Object, volumes: dict[str, Path], address: PodAddress | None
    ) -> _Status:
        """Until it has ended; returns how."""
        process = ContainerProcess(self._pod, container, volumes)
        started = {"startedAt": timestamp()}
        network = await process.start()
        self._process = process
        if self._killed.is_set():
            process.kill()
        if address is None:
            os.close(network)
            self._report({}, {"running": started}, container)
        else:
            await address.start(network)
            self._report({"phase": "Running", "podIP": address.ip}, {"running": started})
        code = await process.wait()
        if code and not self._kill_reason:
            _log.warning(
                "%s ended with %s: %s", self.name, code, process.log.decode("utf-8", "replace")
            )
        reason = self._kill_reason or ("Error" if code else "Completed")
        return {"exitCode": code, "reason": reason, **started, "finishedAt": timestamp()}

    @property
    def _key(self) -> tuple[str, str, str]:
        return "pods", self._pod["metadata"]["namespace"], self.name

    def _change(self, edit: Callable[[Object], None]) -> None:
        if self._exists():
            self._kubelet.objects.change(*self._key, edit)

    def _exists(self) -> bool:
        """False: it was deleted, and another one may have its name now."""
        with contextlib.suppress(ApiError):
            return bool(self._kubelet.objects.get(*self._key)["metadata"]["uid"] == self._uid)
        return False

    def _report(
        self, status: _Status, state: _Status | None = None, container: Object | None = None
    ) -> None:
        """`state` is that of one container, or of the main one."""

        def edit(pod: Object) -> None:
            pod["status"].update(status)
            if state is not None:
                _set_state(pod, container or self._spec["containers"][0], state)

        self._change(edit)


def _set_state(pod: Object, container: Object, state: _Status) -> None:
    is_main = container in pod["spec"]["containers"]
    field = "containerStatuses" if is_main else "initContainerStatuses"
    statuses = {each["name"]: each for each in pod["status"].get(field, ())}
    statuses[container["name"]] = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": "running" in state,
        "started": "running" in state,
        "restartCount": 0,
        "state": state,
    }
    pod["status"][field] = list(statuses.values())


def _condition(status: str, **fields: str) -> _Status:
    return {"conditions": [{"type": "PodScheduled", "status": status, **fields}]}
