"""How a service is started: from its definition and the configuration of its image."""

import dataclasses
import shlex

from agentjobs_runtime.environments.definition import ServiceDefinition
from agentjobs_runtime.environments.images.model import Image
from agentjobs_worker.environments.running_service import ServiceFailed, ServiceTask
from agentjobs_worker.sandbox.protocol import SandboxTask

_IN_DIRECTORY = 'mkdir -p -- "$0" && cd -- "$0" && exec "$@"'


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
