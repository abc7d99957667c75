"""Starts builds of environments that no job waits for, on a worker."""

from agentjobs.environments.builds import TOPIC
from agentjobs.environments.worker_environments import WorkerEnvironments
from agentjobs.jobs.environments.requested_builds import RequestedBuilds
from agentjobs.jobs.run.context import JobTools

_POLL_SECONDS = 15.0


class EnvironmentLoop:
    name = "environments"

    def __init__(self, tools: JobTools, environments: WorkerEnvironments) -> None:
        self._changes = tools.context.db.changes
        self._builds = RequestedBuilds(tools, environments)

    async def run(self) -> None:
        # A push makes an index due.
        with self._changes.listen(TOPIC, "index") as signal:
            while True:
                signal.clear()
                await self.start_all()
                await signal.wait(self._changes.poll_seconds(_POLL_SECONDS))

    async def start_all(self) -> None:
        """Start everything that was requested or that a push made necessary."""
        await self._builds.request_after_pushes()
        while await self._builds.start_next():
            pass
