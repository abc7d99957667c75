"""Runs builds of environments that no job waits for, one after the other."""

from agentjobs_worker.link.environments import TOPIC
from agentjobs_worker.loops.requested_builds import RequestedBuilds

_POLL_SECONDS = 15.0


class EnvironmentLoop:
    name = "environments"

    def __init__(self, builds: RequestedBuilds) -> None:
        """A worker has as many as places for builds, so that organizations need not wait."""
        self._changes = builds.tools.context.db.changes
        self._builds = builds

    async def run(self) -> None:
        # A push makes an index due.
        with self._changes.listen(TOPIC, "index") as signal:
            while True:
                signal.clear()
                await self.run_all()
                await signal.wait(self._changes.poll_seconds(_POLL_SECONDS))

    async def run_all(self) -> None:
        """Run everything that was requested or that a push made necessary."""
        await self._builds.request_after_pushes()
        while await self._builds.run_next():
            pass
