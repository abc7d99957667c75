"""Runs services beside an agent, each in a sandbox of its own that has no network.

The agent reaches their TCP ports on its own loopback, through relays outside of the sandboxes. A
service reaches nothing.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from agentjobs_worker.environments.running_service import RunningService, ServiceFailed, ServiceTask
from agentjobs_worker.sandbox.port_relay import MAX_PORTS
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxPort

READY_SECONDS = 120


class RunningServices:
    def __init__(self, services: Sequence[RunningService]) -> None:
        self._services = services

    def ports(self) -> tuple[SandboxPort, ...]:
        """For the next sandbox of the agent. The ports of the one before stop working."""
        return tuple(port for service in self._services for port in service.ports())

    def check(self) -> None:
        """Raises ServiceFailed or SandboxError if a service has ended."""
        for service in self._services:
            service.check()


@contextlib.asynccontextmanager
async def running_services(
    tasks: Sequence[ServiceTask],
    sandbox: Sandbox,
    *,
    on_output: Callable[[str, bytes], None],
    on_end: Callable[[ServiceFailed], None],
    reserved_ports: Collection[int] = (),
    ready_seconds: float = READY_SECONDS,
) -> AsyncIterator[RunningServices]:
    """Start them, wait until all are ready, and kill them in the end.

    `on_end` is called for a service that ends by itself after all were ready. Raises ServiceFailed,
    or SandboxError if a sandbox did not start.
    """
    services: list[RunningService] = []
    try:
        for task in tasks:
            on_own_output = functools.partial(on_output, task.name)
            services.append(RunningService(task, sandbox, on_own_output))
        await _wait_until_ready(services, ready_seconds)
        _check_ports(services, reserved_ports)
        for service in services:
            service.call_at_end(on_end)
        yield RunningServices(services)
    finally:
        await _stop(services)


async def _wait_until_ready(services: Sequence[RunningService], seconds: float) -> None:
    waiting = [asyncio.ensure_future(service.wait_until_ready(seconds)) for service in services]
    try:
        for ready in asyncio.as_completed(waiting):
            await ready
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _check_ports(services: Sequence[RunningService], reserved: Collection[int]) -> None:
    owners: dict[int, RunningService] = {}
    for service in services:
        for port in service.port_numbers:
            if port in reserved:
                raise service.failure(f"listens on port {port}, which agentjobs uses: change it")
            if port in owners:
                other = owners[port].name
                raise service.failure(f"listens on port {port}, like service {other}: change it")
            owners[port] = service
            if len(owners) > MAX_PORTS:
                raise service.failure(
                    f"listens on too many ports: all services together may have {MAX_PORTS}"
                )


async def _stop(services: Sequence[RunningService]) -> None:
    for service in services:
        service.kill()
    async with contextlib.AsyncExitStack() as stack:
        for service in services:
            stack.push_async_callback(service.stop)
