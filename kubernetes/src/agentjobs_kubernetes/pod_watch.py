"""One watch for all pods of a worker; whoever waits for a pod gets its latest state."""

import asyncio
import contextlib
import dataclasses
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping

from lightkube import AsyncClient
from lightkube.core.client import LabelSelector
from lightkube.resources.core_v1 import Pod

from agentjobs_kubernetes.api_errors import (
    API_ERRORS,
    explain,
    is_refusal,
    read_message,
    status_code,
)
from agentjobs_kubernetes.api_retries import Backoff
from agentjobs_kubernetes.pod_status import PodState, pod_state

# A connection that a firewall dropped silently never ends by itself.
_MAX_WATCH_SECONDS = 20
# Nobody knows what happens to pods in the meantime, so that not even the server may ask for more.
_MAX_PAUSE_SECONDS = 5.0
# Then the watch delivers nothing, but a list may.
_MAX_RESUMPTIONS = 3
# A watch that lasted as long was accepted, and something like a proxy ended it.
STABLE_SECONDS = 5.0
_NOTED_FAILURES = (3, 30)

_log = logging.getLogger(__name__)


class _WatchEnded(OSError):
    """The server, or a proxy before it, ended the watch as if it were complete."""


class PodWatch:
    """Lists and then watches, resumes from the last version, and lists again if that is too old."""

    def __init__(self, client: AsyncClient, namespace: str, labels: Mapping[str, str]) -> None:
        self._client = client
        self._namespace = namespace
        self._labels: LabelSelector = dict(labels)
        self._states: dict[str, PodState] = {}
        self._changes: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._has_listed = False
        # Why the server does not let this worker follow pods.
        self._refusal = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def followed_pods(self) -> set[str]:
        return set(self._changes)

    async def follow(self, name: str) -> AsyncIterator[PodState]:
        """Ends after the state in which the pod is gone. Skips states that came too quickly."""
        self._start()
        changed = asyncio.Event()
        self._changes[name].add(changed)
        try:
            last: PodState | None = None
            while last is None or not last.is_gone:
                changed.clear()
                state = self._current(name)
                if state is not None and state != last:
                    last = state
                    yield state
                else:
                    await changed.wait()
        finally:
            self._changes[name].discard(changed)
            if not self._changes[name]:
                del self._changes[name]
                self._forget_gone(name)

    def add(self, state: PodState) -> None:
        """A pod that was just created, which the watch may not have seen yet."""
        self._states.setdefault(state.name, state)

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="kubernetes pod watch")

    def _current(self, name: str) -> PodState | None:
        state = self._states.get(name)
        if self._refusal and (state is None or not state.is_running):
            return dataclasses.replace(state or PodState(name=name), waiting=self._refusal)
        if state is None and self._has_listed:
            return PodState(name=name).after_deletion()
        return state

    async def _run(self) -> None:
        version, backoff = "", Backoff()
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                version = version or await self._list()
                async with asyncio.timeout(_MAX_WATCH_SECONDS):
                    async for event, pod in self._client.watch(
                        Pod,
                        namespace=self._namespace,
                        labels=self._labels,
                        resource_version=version,
                    ):
                        version = (pod.metadata and pod.metadata.resourceVersion) or version
                        backoff = Backoff()
                        self._apply(event, pod)
                raise _WatchEnded("it ended without an error")
            except TimeoutError:
                backoff = Backoff()
                self._refuse("")
            except Exception as error:  # noqa: BLE001 - all runs of this worker depend on it
                if loop.time() - began > STABLE_SECONDS:
                    backoff = Backoff()
                if _needs_list(error) or backoff.failures >= _MAX_RESUMPTIONS:
                    version = ""
                await self._pause(backoff, error)

    async def _list(self) -> str:
        known = set(self._states)
        pods = self._client.list(Pod, namespace=self._namespace, labels=self._labels)
        states = [pod_state(pod) async for pod in pods]
        for name in (known & self._states.keys()) - {state.name for state in states}:
            self._update(self._states[name].after_deletion())
        for state in states:
            self._update(state)
        self._has_listed = True
        self._wake_all()
        return pods.resourceVersion

    async def _pause(self, backoff: Backoff, error: Exception) -> None:
        delay = min(backoff.next_delay(error), _MAX_PAUSE_SECONDS)
        if backoff.failures in _NOTED_FAILURES:
            _log.warning("The watch of pods is interrupted: %s", read_message(error))
            if is_refusal(error):
                self._refuse(str(explain(error, "watch pods", self._namespace)))
        await asyncio.sleep(delay)

    def _refuse(self, reason: str) -> None:
        if reason != self._refusal:
            self._refusal = reason
            self._wake_all()

    def _apply(self, event: str, pod: Pod) -> None:
        self._refuse("")
        state = pod_state(pod)
        self._update(state.after_deletion() if event == "DELETED" else state)

    def _update(self, state: PodState) -> None:
        self._states[state.name] = state
        self._wake(state.name)
        self._forget_gone(state.name)

    def _wake(self, name: str) -> None:
        for changed in self._changes.get(name, ()):
            changed.set()

    def _wake_all(self) -> None:
        for name in self._changes:
            self._wake(name)

    def _forget_gone(self, name: str) -> None:
        state = self._states.get(name)
        if state is not None and state.is_gone and name not in self._changes:
            del self._states[name]


def _needs_list(error: Exception) -> bool:
    return status_code(error) == 410 or not isinstance(error, API_ERRORS)
