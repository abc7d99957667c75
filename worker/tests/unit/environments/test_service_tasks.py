"""The command and the variables of a service."""

from pathlib import Path
from typing import Any

import pytest

from agentjobs_runtime.environments.definition import ServiceDefinition
from agentjobs_runtime.environments.images.model import Image
from agentjobs_worker.environments.running_service import ServiceFailed
from agentjobs_worker.environments.services import service_task
from agentjobs_worker.sandbox.protocol import SandboxTask

_ENTRYPOINT = ("docker-entrypoint.sh",)


def image(**fields: Any) -> Image:
    defaults: dict[str, Any] = {"entrypoint": (), "command": (), "variables": {}}
    return Image(
        **{**defaults, **fields},
        reference="registry.example.com/postgres:17",
        digest="sha256:0",
        root=Path("/nowhere"),
        owner_uid=None,
        size_bytes=0,
        working_directory="/var/lib",
    )


def task(**fields: Any) -> SandboxTask:
    path = Path("/nowhere")
    defaults: dict[str, Any] = {"argv": (), "environment": {}, "timeout_seconds": 1, "slot": 7}
    return SandboxTask(**{**defaults, **fields}, workspace=path, run_dir=path)


def definition(**fields: Any) -> ServiceDefinition:
    return ServiceDefinition(name="postgres", **{"image": "postgres:17", **fields})


def test_without_an_image_a_shell_runs_the_command() -> None:
    service = definition(image="", command="redis-server | cat", ready="true", variables={"A": "b"})
    made = service_task(service, None, task(environment={"LANG": "C"}))
    assert (made.name, made.ready, made.task.slot) == ("postgres", "true", 7)
    assert made.task.argv == ("sh", "-c", "redis-server | cat")
    assert made.task.environment == {"LANG": "C", "A": "b"}


@pytest.mark.parametrize(
    ("entrypoint", "command", "own", "expected"),
    [
        ((), ("nginx", "-g"), "", ("nginx", "-g")),
        (_ENTRYPOINT, ("postgres",), "", (*_ENTRYPOINT, "postgres")),
        (_ENTRYPOINT, (), "", _ENTRYPOINT),
        (
            _ENTRYPOINT,
            ("postgres",),
            "postgres -c 'a=b c'",
            (*_ENTRYPOINT, "postgres", "-c", "a=b c"),
        ),
        ((), ("nginx",), "nginx & wait", ("sh", "-c", "nginx & wait")),
    ],
)
def test_an_image_starts_as_its_author_says(
    entrypoint: tuple[str, ...], command: tuple[str, ...], own: str, expected: tuple[str, ...]
) -> None:
    started = image(entrypoint=entrypoint, command=command)
    made = service_task(definition(command=own), started, task())
    assert made.task.argv[3:] == ("/var/lib", *expected)


def test_in_the_image_of_the_environment_a_shell_runs_the_command() -> None:
    started = image(entrypoint=_ENTRYPOINT, command=("bash",), variables={"A": "b"})
    made = service_task(definition(image="", command="redis-server"), started, task())
    assert made.task.argv[3:] == ("/var/lib", "sh", "-c", "redis-server")
    assert made.task.environment == {"A": "b"}


def test_the_definition_overrides_the_variables_of_the_image() -> None:
    started = image(command=("it",), variables={"PATH": "/opt/bin", "PGDATA": "/data"})
    made = service_task(definition(variables={"PGDATA": "/tmp/data"}), started, task())
    assert made.task.environment == {"PATH": "/opt/bin", "PGDATA": "/tmp/data"}


@pytest.mark.parametrize(
    ("started", "own", "message"),
    [
        (image(), "", "service postgres needs a `command`: its image does not have one"),
        (image(entrypoint=_ENTRYPOINT), "it's", "has an invalid `command`: No closing quotation"),
    ],
)
def test_a_service_without_a_usable_command_fails(started: Image, own: str, message: str) -> None:
    with pytest.raises(ServiceFailed, match=message):
        service_task(definition(command=own), started, task())
