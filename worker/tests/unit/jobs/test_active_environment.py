"""Which programs an image must have before an agent starts in it, and what services may use."""

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs_runtime.agents.definitions import Agent, ModelAccess
from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.environments.images.model import Image
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_runtime.sandboxes.limits import Limits
from agentjobs_worker.agents.pod_programs import PodPrograms
from agentjobs_worker.environments.services import RunningServices
from agentjobs_worker.run.active_environment import ActiveEnvironment, _service_tasks
from agentjobs_worker.run.environment import RunEnvironment
from agentjobs_worker.sandbox.process import ProcessSandbox
from agentjobs_worker.sandbox.protocol import RootImage, SandboxTask

REFERENCE = "registry.example.com/acme/build:1"
ROOT = RootImage(reference=f"registry.example.com/acme/build@sha256:{'0' * 64}")
IMAGE = Image(
    reference=REFERENCE,
    digest=f"sha256:{'0' * 64}",
    root=None,
    owner_uid=None,
    size_bytes=0,
    entrypoint=(),
    command=(),
    variables={"PATH": "/opt/bin"},
    working_directory="/",
)


class ImageSandbox:
    """Whose image has these programs."""

    def __init__(self, *programs: str) -> None:
        self.programs = programs

    async def find_programs(
        self, names: Collection[str], *, image: RootImage | None = None, path: str = ""
    ) -> dict[str, str]:
        assert (image, path) == (ROOT, "/opt/bin")
        return {name: f"/opt/bin/{name}" for name in names if name in self.programs}


def agent(*command: str, **fields: Any) -> Agent:
    return Agent(
        id="it", name="It", plan_required="free", command=command, timeout_seconds=1, **fields
    )


def task(*argv: str) -> SandboxTask:
    path = Path("/nowhere")
    return SandboxTask(
        argv=argv, environment={}, workspace=path, run_dir=path, timeout_seconds=1, slot=0
    )


def active(*, is_devcontainer: bool = False) -> ActiveEnvironment:
    environment = RunEnvironment(
        definition=EnvironmentDefinition(image=REFERENCE),
        images={REFERENCE: IMAGE},
        is_devcontainer=is_devcontainer,
    )
    return ActiveEnvironment(environment, (), ROOT, RunningServices([]), ())


async def connect(
    environment: ActiveEnvironment, agent: Agent, argv: tuple[str, ...], *programs: str
) -> SandboxTask:
    sandbox: Any = ImageSandbox(*programs)
    pods = PodPrograms(sandbox, REFERENCE)
    return await environment.connect_agent(task(*argv), agent, pods, print)


async def test_a_program_of_the_worker_is_started_where_the_image_has_it() -> None:
    command = ("/usr/local/bin/fixer", "--all")
    connected = await connect(active(), agent(*command), command, "fixer")
    assert connected.argv == ("fixer", "--all")
    assert connected.image == ROOT


async def test_an_image_without_the_program_fails_the_environment() -> None:
    with pytest.raises(EnvironmentFailed, match="does not have the program fixer"):
        await connect(active(), agent("fixer"), ("fixer",), "sh")


async def test_the_program_of_a_preset_is_looked_for_behind_its_shell() -> None:
    model = ModelAccess(api="anthropic", url="https://api.example.com", secret="KEY")
    claude = agent(preset="claude-code", model=model)
    argv = ("sh", "-c", 'exec "$@"', "agentjobs", "claude")
    with pytest.raises(EnvironmentFailed, match="the program claude"):
        await connect(active(), claude, argv, "sh")
    assert (await connect(active(), claude, argv, "sh", "claude")).argv == argv


async def test_without_the_program_an_agent_runs_without_a_devcontainer() -> None:
    connected = await connect(active(is_devcontainer=True), agent("fixer"), ("fixer",), "sh")
    assert (connected.argv, connected.image) == (("fixer",), None)


async def test_a_program_of_the_repository_is_not_looked_for() -> None:
    connected = await connect(active(), agent("./fix.sh"), ("./fix.sh",))
    assert connected.argv == ("./fix.sh",)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_all_services_of_a_job_together_have_the_limits_of_one_agent(
    tmp_path: Path, count: int
) -> None:
    limits = Limits(cpus=2, cpu_seconds=5)
    services = tuple(ServiceDefinition(name=f"s{number}", command="x") for number in range(count))
    environment = RunEnvironment(definition=EnvironmentDefinition(services=services))
    run: Any = SimpleNamespace(
        slot=1,
        settings=SimpleNamespace(effective_slots=2, setup_seconds=1),
        tools=SimpleNamespace(sandbox=ProcessSandbox()),
        owner=lambda _: None,
        log=SimpleNamespace(note=print),
    )
    plan: Any = SimpleNamespace(agent=agent("fixer", limits=limits), timeout_seconds=1)
    shares = [
        service.task.limits for service in _service_tasks(run, plan, environment, tmp_path / "it")
    ]
    assert len(shares) == count
    for name in ("memory_bytes", "processes", "scratch_bytes", "workspace_bytes", "cpu_seconds"):
        total = sum(getattr(share, name) for share in shares)
        assert min(getattr(share, name) for share in shares) > 0
        assert total < getattr(limits, name) + count, name
    assert sum(share.cpus for share in shares) == pytest.approx(2)
    assert Limits(memory_bytes=0).divided(count).memory_bytes == 0, "without a limit"
