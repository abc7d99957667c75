"""Reaches the supervisor of a pod as soon as it listens, and again after a lost connection."""

import asyncio
import logging

from agentjobs_kubernetes.connection import OnPort, Supervisor, connect
from agentjobs_kubernetes.credentials import Credentials
from agentjobs_kubernetes.followed_pod import FollowedPod
from agentjobs_kubernetes.run_output import RunOutput
from agentjobs_kubernetes.stream import ConnectionLost

RETRY_SECONDS = 0.05
# A pod that fetches an image for minutes is asked less often.
SLOW_RETRY_SECONDS = 0.5
SLOW_AFTER_SECONDS = 10.0
# The node says that it runs, but nothing answers. The supervisor itself gives up after 60 seconds,
# and its exit code would hide why.
MAX_SILENT_START_SECONDS = 45.0
# Connections that end soon after each other: the next one will not help.
SHORT_CONNECTION_SECONDS = 60.0
MAX_SHORT_CONNECTIONS = 20


_log = logging.getLogger(__name__)


class PodConnection:
    """`address` is known if the pod was reached before this process started."""

    def __init__(
        self,
        pod: FollowedPod,
        credentials: Credentials,
        output: RunOutput,
        on_port: OnPort,
        *,
        pending_seconds: float,
        orphan_seconds: float,
        address: str = "",
    ) -> None:
        self.pod = pod
        self._credentials = credentials
        self._output = output
        self._on_port = on_port
        self._pending_seconds = pending_seconds
        self._orphan_seconds = orphan_seconds
        self._address = address
        self._supervisor: Supervisor | None = None
        self._connected_at = 0.0
        self._running_since = 0.0
        self._short_connections = 0

    @property
    def address(self) -> str:
        return self.pod.state.ip or self._address

    @property
    def current(self) -> Supervisor:
        """Raises ConnectionLost."""
        if self._supervisor is None:
            raise ConnectionLost("the pod is not connected")
        return self._supervisor

    async def connect(self) -> Supervisor:
        """Raises SandboxError when the pod cannot be reached any more."""
        if self._supervisor is not None:
            await self._leave(self._supervisor)
        began = asyncio.get_running_loop().time()
        reason = "it has no address"
        while not self.pod.over.done():
            if self.address:
                try:
                    self._supervisor = await self._try_once()
                except ConnectionLost as error:
                    reason = str(error)
                else:
                    self._connected_at = asyncio.get_running_loop().time()
                    return self._supervisor
            waited = asyncio.get_running_loop().time() - began
            self._check_time(waited, reason)
            is_slow = not self.pod.state.is_running and waited > SLOW_AFTER_SECONDS
            await self.pod.wait_for_change(SLOW_RETRY_SECONDS if is_slow else RETRY_SECONDS)
        raise self.pod.explain_loss(reason)

    def _check_time(self, waited: float, reason: str) -> None:
        """Raises SandboxError when nothing can be expected any more."""
        if self._connected_at or self._address:
            if waited > self._orphan_seconds:
                raise self.pod.explain_loss(reason)
        elif self.pod.state.is_running:
            self._running_since = self._running_since or waited
            if waited > self._running_since + MAX_SILENT_START_SECONDS:
                raise self.pod.explain_loss(
                    f"it runs, but this worker cannot reach it ({reason}): include the worker in "
                    "kubernetes_worker_labels or kubernetes_worker_cidrs"
                )
        elif waited > self._pending_seconds:
            raise self.pod.state.start_timeout(self._pending_seconds)

    def close(self) -> None:
        if self._supervisor is not None:
            self._supervisor.close()
            self._supervisor = None

    async def _leave(self, supervisor: Supervisor) -> None:
        """Count it, and wait a little before the next one."""
        is_short = asyncio.get_running_loop().time() - self._connected_at < SHORT_CONNECTION_SECONDS
        self._short_connections = self._short_connections + 1 if is_short else 0
        reason = supervisor.lost.result() if supervisor.lost.done() else "it does not respond"
        _log.warning("The connection to the pod %s has ended: %s", self.pod.state.name, reason)
        self.close()
        if self._short_connections > MAX_SHORT_CONNECTIONS:
            raise self.pod.explain_loss(f"its connections end at once ({reason})")
        await self.pod.wait_for_change(RETRY_SECONDS)

    async def _try_once(self) -> Supervisor:
        return await connect(
            self.address,
            self._credentials,
            self._output,
            self._on_port,
            # Half of it is left for a new connection.
            silence_seconds=self._orphan_seconds / 2,
        )
