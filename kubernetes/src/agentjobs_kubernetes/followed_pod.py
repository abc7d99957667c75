"""The latest state of one pod, and notes on what it waits for."""

import asyncio
from dataclasses import replace

from agentjobs_kubernetes.cluster import Cluster
from agentjobs_kubernetes.pod_status import PodState
from agentjobs_worker.sandbox.child import wait_despite_cancellation
from agentjobs_worker.sandbox.protocol import OnNote, SandboxError, SandboxLost

# A registry that is restarted, or a pull secret that comes late, may refuse one attempt.
_MAX_REFUSED_PULLS = 2
# Then it is said, even if nothing is unusual.
LONG_START_SECONDS = 15.0


class FollowedPod:
    """`over` is done when the pod can no longer finish its command."""

    def __init__(self, cluster: Cluster, name: str, on_note: OnNote) -> None:
        loop = asyncio.get_running_loop()
        self.state = PodState(name=name)
        self.over: asyncio.Future[PodState] = loop.create_future()
        self._on_note = on_note
        self._refused_pulls = 0
        self._changed = asyncio.Event()
        self._task = loop.create_task(self._follow(cluster))
        self._timer = loop.call_later(LONG_START_SECONDS, self._note_long_start)

    async def close(self) -> None:
        self._timer.cancel()
        self._task.cancel()
        await wait_despite_cancellation(self._task)

    async def wait_for_change(self, seconds: float) -> None:
        """Returns after that time in any case."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def explain_loss(self, reason: str) -> SandboxError:
        """The error for a pod that cannot be reached any more."""
        return self.state.failure or SandboxLost(f"the pod of this run is lost: {reason}")

    async def _follow(self, cluster: Cluster) -> None:
        async for state in cluster.watch_pod(self.state.name):
            if state.waiting and state.waiting != self.state.waiting:
                self._on_note(f"the pod waits: {state.waiting}")
            self.state = self._with_refusal(state)
            self._changed.set()
            if _is_over(self.state) and not self.over.done():
                self.over.set_result(self.state)

    def _with_refusal(self, state: PodState) -> PodState:
        is_new_attempt = state.has_failed_pull and not self.state.has_failed_pull
        if state.pull_refusal and is_new_attempt:
            self._refused_pulls += 1
        if state.pull_refusal and self._refused_pulls >= _MAX_REFUSED_PULLS:
            return replace(state, failure=state.failure or state.pull_refusal)
        return state

    def _note_long_start(self) -> None:
        if not self.state.is_running and not self.state.waiting:
            self._on_note("the pod is still being created; its node may be fetching the image")


def _is_over(state: PodState) -> bool:
    return (
        state.failure is not None
        or state.has_ended
        or state.is_gone
        or state.is_oom_killed
        or state.is_storage_exceeded
        or state.is_deadline_exceeded
    )
