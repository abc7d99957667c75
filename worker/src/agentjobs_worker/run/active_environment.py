"""The environment under the sandboxes of one run: layers, services, private hosts, `start`."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.environments.definition import ServiceDefinition
from agentjobs_runtime.environments.images.model import Image
from agentjobs_runtime.outbound.egress.egress import PROXY_PORT
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_runtime.sandboxes.slots import MAX_SERVICES, service_slots
from agentjobs_worker.agents.invocation import create_run_directory
from agentjobs_worker.agents.model_access import GATEWAY_PORT
from agentjobs_worker.agents.pod_programs import PodPrograms, find_program_name
from agentjobs_worker.environments.image_programs import find_program, missing_interpreter
from agentjobs_worker.environments.layers import (
    home_layer,
    root_image,
    root_layers,
    workspace_layer,
)
from agentjobs_worker.environments.network import open_broker
from agentjobs_worker.environments.running_service import ServiceFailed, ServiceTask
from agentjobs_worker.environments.services import RunningServices, running_services, service_task
from agentjobs_worker.environments.setup_run import create_owned_directory
from agentjobs_worker.run.context import RunContext
from agentjobs_worker.run.environment import RunEnvironment
from agentjobs_worker.run.plan import RunPlan
from agentjobs_worker.sandbox.protocol import (
    Layer,
    RootImage,
    SandboxPort,
    SandboxTask,
)
from agentjobs_worker.workspace.checkout import Checkout

DIRECTORY = "environment"
_MAX_SERVICE_LOG_BYTES = 64 * 1024
_RESERVED_PORTS = (GATEWAY_PORT, PROXY_PORT)


@dataclasses.dataclass(frozen=True, slots=True)
class ActiveEnvironment:
    """`connect` it to each sandbox of the run, one after the other."""

    environment: RunEnvironment
    layers: tuple[Layer, ...]
    root_image: RootImage | None
    services: RunningServices
    broker_ports: tuple[SandboxPort, ...]

    def connect(self, task: SandboxTask) -> SandboxTask:
        """Add variables, files and ports; `task` has its own ports already.

        A port of a service replaces that of a host, which the agent reaches through its proxy.
        """
        image = self.environment.image
        services = self.services.ports()
        taken = {port.number for port in services}
        return dataclasses.replace(
            task,
            environment={
                **(image.variables if image is not None else {}),
                **self.environment.definition.variables,
                **task.environment,
            },
            ports=(
                *(port for port in task.ports if port.number not in taken),
                *self.broker_ports,
                *services,
            ),
            layers=self.layers,
            image=self.root_image,
        )

    async def connect_agent(
        self, task: SandboxTask, agent: Agent, pods: PodPrograms | None, note: Callable[[str], None]
    ) -> SandboxTask:
        """Raises EnvironmentFailed if the image cannot run the agent's program."""
        image = self.environment.image
        if image is None:
            return self.connect(task)
        try:
            if self.root_image is not None and pods is not None:
                await _check_programs(task, agent, image, self.root_image, pods)
                return self.connect(_by_name(task))
            return self.connect(_in_image(task, image))
        except EnvironmentFailed as error:
            if not self.environment.is_devcontainer:
                raise
            note(f"the agent runs without the environment of devcontainer.json: {error}")
            return task


@contextlib.asynccontextmanager
async def open_environment(
    run: RunContext, plan: RunPlan, environment: RunEnvironment, checkout: Checkout
) -> AsyncIterator[ActiveEnvironment]:
    """Services run until the exit. Raises EnvironmentFailed."""
    directory = checkout.tree.parent / DIRECTORY
    uid = run.tools.sandbox.owner_uid(run.slot)
    layers = _layers(environment, checkout, directory, uid)

    def note(line: str) -> None:
        run.log.note(f"network: {line}")

    async with open_broker(
        environment.brokered, run.tools.allowed, run.settings.ca_file, note
    ) as broker_ports:
        tasks = _service_tasks(run, plan, environment, directory)
        numbers = (*_RESERVED_PORTS, *(port.number for port in broker_ports))
        async with _services(run, tasks, numbers) as services:
            image = root_image(environment.image, environment.registries)
            active = ActiveEnvironment(environment, layers, image, services, broker_ports)
            await _run_commands(run, plan, active, checkout, directory)
            services.check()
            yield active


def _layers(
    environment: RunEnvironment, checkout: Checkout, directory: Path, uid: int | None
) -> tuple[Layer, ...]:
    if not environment.has_layers:
        return ()
    directory.mkdir(mode=0o755)
    for name in ("root", "home", "empty"):
        create_owned_directory(directory / name, uid)
    image, stored = environment.image, environment.stored
    root = root_layers(image, directory / "root")
    if stored is None:
        return (*root, home_layer(directory / "empty", directory / "home"))
    home = home_layer(stored.home, directory / "home", stored.snapshot.owner_uid)
    return (*root, home, workspace_layer(stored, checkout.tree))


@contextlib.asynccontextmanager
async def _services(
    run: RunContext, tasks: list[ServiceTask], reserved_ports: tuple[int, ...]
) -> AsyncIterator[RunningServices]:
    logs = {
        task.name: run.log.open_source(f"service:{task.name}", _MAX_SERVICE_LOG_BYTES)
        for task in tasks
    }

    def write(name: str, output: bytes) -> None:
        logs[name].write(output)

    def note_end(failure: ServiceFailed) -> None:
        run.log.note(f"{failure}")

    try:
        async with running_services(
            tasks,
            run.tools.sandbox,
            on_output=write,
            on_end=note_end,
            reserved_ports=reserved_ports,
        ) as services:
            yield services
    except ServiceFailed as failure:
        raise EnvironmentFailed(
            f"The {failure}. Its last lines:\n{run.log.redact(failure.last_lines)}"
        ) from None
    finally:
        for log in logs.values():
            log.end()


async def _run_commands(
    run: RunContext,
    plan: RunPlan,
    active: ActiveEnvironment,
    checkout: Checkout,
    directory: Path,
) -> None:
    definition, settings = active.environment.definition, run.settings
    setup = definition.setup if active.environment.runs_setup else ""
    commands = [
        ("setup", setup, settings.setup_seconds),
        ("start", definition.start, settings.start_seconds),
    ]
    for name, command, seconds in commands:
        if not command:
            continue
        run.log.note(f"environment: {name}")
        directory.mkdir(mode=0o755, exist_ok=True)
        run_dir = directory / f"run-{name}"
        create_run_directory(run_dir, run.tools.sandbox.owner_uid(run.slot))
        task = SandboxTask(
            argv=("sh", "-c", command),
            environment={},
            workspace=checkout.tree,
            run_dir=run_dir,
            timeout_seconds=seconds,
            slot=run.slot,
            limits=plan.agent.limits,
            owner=run.owner(name),
            on_note=run.log.note,
            placement=plan.agent.placement,
        )
        report = await run.tools.sandbox.run(active.connect(task), run.log.write)
        run.log.end_output()
        if reason := report.failure_reason(seconds):
            last_lines = run.log.redact(report.last_lines)
            raise EnvironmentFailed(f"The `{name}` command {reason}. Its last lines:\n{last_lines}")


def _service_tasks(
    run: RunContext, plan: RunPlan, environment: RunEnvironment, directory: Path
) -> list[ServiceTask]:
    services = environment.definition.services[:MAX_SERVICES]
    if services:
        directory.mkdir(mode=0o755, exist_ok=True)
    slots = service_slots(run.settings.effective_slots, run.slot)
    # Otherwise a job could use many times what the operator allows.
    limits = plan.agent.limits.divided(max(len(services), 1))
    return [
        _service_task(run, plan, environment, service, directory, slot, limits)
        for slot, service in zip(slots, services, strict=False)
    ]


def _service_task(
    run: RunContext,
    plan: RunPlan,
    environment: RunEnvironment,
    service: ServiceDefinition,
    directory: Path,
    slot: int,
    limits: Limits,
) -> ServiceTask:
    uid = run.tools.sandbox.owner_uid(slot)
    own = directory / f"service-{service.name}"
    own.mkdir(mode=0o755)
    for name in ("workspace", "root"):
        create_owned_directory(own / name, uid)
    create_run_directory(own / "run", uid)
    image = environment.images.get(service.image) if service.image else environment.image
    task = SandboxTask(
        argv=(),
        environment={},
        workspace=own / "workspace",
        run_dir=own / "run",
        timeout_seconds=plan.timeout_seconds + run.settings.setup_seconds,
        slot=slot,
        limits=limits,
        layers=root_layers(image, own / "root"),
        image=root_image(image, environment.registries),
        owner=run.owner(f"service-{service.name}"),
        on_note=run.log.note,
        placement=plan.agent.placement,
    )
    return service_task(service, image, task)


async def _check_programs(
    task: SandboxTask, agent: Agent, image: Image, root: RootImage, pods: PodPrograms
) -> None:
    """Checks the first program and that of a preset, but none in the repository."""
    programs = (task.argv[0], find_program_name(agent) or "")
    names = {Path(program).name for program in programs if program and not _is_in_repo(program)}
    available = await pods.find(names, root, image.variables.get("PATH", ""))
    for name in sorted(names.difference(available)):
        raise _missing(image, f"the program {name}")


def _by_name(task: SandboxTask) -> SandboxTask:
    """Name the program without its path, which is another one in the image."""
    if _is_in_repo(task.argv[0]):
        return task
    return dataclasses.replace(task, argv=(Path(task.argv[0]).name, *task.argv[1:]))


def _is_in_repo(program: str) -> bool:
    return "/" in program and not program.startswith("/")


def _in_image(task: SandboxTask, image: Image) -> SandboxTask:
    """Prefer the image's own program to that of the worker, which needs the worker's libraries."""
    assert image.root is not None
    program, path = task.argv[0], image.variables.get("PATH")
    name = Path(program).name
    if _is_in_repo(program) or find_program(image.root, name, path) is not None:
        return _by_name(task)
    lacks = f"the program {name}"
    if Path(program) in task.read_only:
        missing = missing_interpreter(image.root, Path(program), path)
        if missing is None:
            return task
        lacks = f"{missing}, which the agent's program {name} needs"
    raise _missing(image, lacks)


def _missing(image: Image, lacks: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        f"The image {image.reference} does not have {lacks}. Install the agent in the image."
    )
