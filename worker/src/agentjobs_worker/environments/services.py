"""Runs services beside an agent, each in a sandbox of its own that has no network.

The agent reaches their TCP ports on its own loopback, through relays outside of the sandboxes. A
service reaches nothing.
"""

import asyncio
import contextlib
import dataclasses
import functools
import shlex
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from agentjobs_runtime.environments.definition import ServiceDefinition
from agentjobs_runtime.environments.images.model import Image
from agentjobs_worker.environments.running_service import RunningService, ServiceFailed, ServiceTask
from agentjobs_worker.sandbox.port_relay import MAX_PORTS
from agentjobs_worker.sandbox.protocol import Sandbox, SandboxPort, SandboxTask

READY_SECONDS = 120
_IN_DIRECTORY = 'mkdir -p -- "$0" && cd -- "$0" && exec "$@"'


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


def service_task(service: ServiceDefinition, image: Image | None, task: SandboxTask) -> ServiceTask:
    """`task` lacks only the command and the variables; the image is the layer of its root.

    Without an image of its own, a service runs in that of the environment. Raises ServiceFailed.
    """
    argv = _command(service, image)
    variables = service.variables
    if image is not None:
        argv = ("sh", "-c", _IN_DIRECTORY, image.working_directory, *argv)
        variables = {**image.variables, **variables}
    task = dataclasses.replace(task, argv=argv, environment={**task.environment, **variables})
    return ServiceTask(name=service.name, task=task, ready=service.ready)


def _command(service: ServiceDefinition, image: Image | None) -> tuple[str, ...]:
    """With an entry point, a command is its arguments, as for other programs that run images."""
    own_image = image if service.image else None
    entrypoint = own_image.entrypoint if own_image is not None else ()
    if service.command and not entrypoint:
        return ("sh", "-c", service.command)
    try:
        arguments = tuple(shlex.split(service.command))
    except ValueError as error:
        raise ServiceFailed(service.name, f"has an invalid `command`: {error}") from None
    command = own_image.command if own_image is not None and not arguments else arguments
    if not entrypoint and not command:
        raise ServiceFailed(service.name, "needs a `command`: its image does not have one")
    return (*entrypoint, *command)
