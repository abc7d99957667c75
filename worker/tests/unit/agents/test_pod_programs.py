"""Agents in pods run the programs of their image, whatever the worker has."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.tables import AgentTable
from agentjobs_worker.agents.catalog import Catalog, build_catalog
from agentjobs_worker.agents.pod_programs import PYTHON, PodPrograms
from agentjobs_worker.agents.readiness import check_agents
from agentjobs_worker.sandbox.protocol import SandboxError

IMAGE = "registry.example.com/agents:1"


class Image:
    """Answers for the programs of an image, as a sandbox does."""

    def __init__(self, *programs: str) -> None:
        self.programs = programs
        self.questions: list[tuple[set[str], str]] = []
        self.failure: SandboxError | None = None

    async def find_programs(self, names: Collection[str], *, path: str = "") -> dict[str, str]:
        self.questions.append((set(names), path))
        if self.failure is not None:
            raise self.failure
        places = {Path(program).name: program for program in self.programs}
        absolute = {program: program for program in self.programs}
        return {name: text for name, text in (places | absolute).items() if name in names}


def make_programs(image: Any, **options: Any) -> PodPrograms:
    return PodPrograms(image, IMAGE, **options)


def catalog(*tables: AgentTable) -> Catalog:
    return build_catalog(Settings(data_dir="/nowhere", sandbox="kubernetes", agents=tables))


def declared(*command: str, **changes: Any) -> AgentTable:
    return AgentTable(**{"id": "own", "name": "Own", "command": list(command), **changes})


CLAUDE = AgentTable(preset="claude-code")


async def test_an_agent_is_ready_if_its_program_is_in_the_image() -> None:
    image = Image(PYTHON, "/usr/local/bin/claude")
    agents = catalog(CLAUDE, declared("no-such-tool")).all()
    checked = {
        readiness.agent: readiness
        for readiness in await check_agents(agents, image=make_programs(image))
    }
    assert [agent_id for agent_id in checked if checked[agent_id].reason is None] == [
        "lint-fixer",
        "cve-fixer",
        "claude-code",
    ]
    assert checked["own"].reason == (
        f"`no-such-tool` is not in the image {IMAGE}: install it there and set "
        "AGENTJOBS_KUBERNETES_IMAGE, see docs/kubernetes.md"
    )
    assert not checked["own"].installed
    # One pod for all of them.
    ((names, path),) = image.questions
    assert {PYTHON, "claude", "no-such-tool", "npm"} <= names
    assert path.endswith("/bin:/")


async def test_the_image_is_asked_again_after_an_hour_or_for_another_program() -> None:
    now = [0.0]
    image = Image("/bin/sh")
    programs = make_programs(image, clock=lambda: now[0])
    agents = catalog(declared("sh")).all()
    for seconds in (0.0, 60.0, 3_599.0):
        now[0] = seconds
        await programs.ask(agents)
    assert len(image.questions) == 1
    await programs.ask(catalog(declared("sh"), declared("bash", id="other")).all())
    assert len(image.questions) == 2
    now[0] += 3_601.0
    image.programs = ()
    await programs.ask(agents)
    assert len(image.questions) == 3
    own = catalog(declared("sh")).get("own")
    assert own is not None
    assert "is not in the image" in (programs.problem(own) or "")


async def test_agents_stay_ready_while_the_cluster_does_not_answer() -> None:
    now = [0.0]
    image = Image("/bin/sh")
    programs = make_programs(image, clock=lambda: now[0])
    table = declared("sh")
    own = catalog(table).get("own")
    assert own is not None
    image.failure = SandboxError("the API server is away")
    await programs.ask([own])
    assert (programs.problem(own) or "").endswith("is unknown: the API server is away")
    image.failure = None
    await programs.ask([own])
    assert programs.problem(own) is None
    now[0] += 7_200.0
    image.failure = SandboxError("the API server is away")
    await programs.ask([own])
    assert programs.problem(own) is None


async def test_an_agent_with_its_own_path_is_looked_up_there() -> None:
    image = Image("/opt/tools/fix")
    table = declared("fix", environment={"PATH": "/opt/tools"})
    own = catalog(table).get("own")
    assert own is not None
    programs = make_programs(image)
    await programs.ask([own])
    assert image.questions == [({"fix"}, "/opt/tools:/")]
    assert programs.problem(own) is None


async def test_a_program_in_the_repository_or_copied_from_the_worker_is_not_looked_for(
    tmp_path: Path,
) -> None:
    script = tmp_path / "fix.sh"
    script.write_text("#!/bin/sh\n")
    agents = catalog(declared("./fix"), declared(str(script), id="copied")).all()
    checked = await check_agents(agents, image=make_programs(Image()))
    reasons = {readiness.agent: readiness.reason for readiness in checked}
    assert reasons["own"] is None
    assert reasons["copied"] is None


def test_a_preset_runs_the_program_of_the_image() -> None:
    agents = catalog(CLAUDE, AgentTable(id="other", preset="codex", executable="/opt/codex"))
    commands = {agent.id: make_programs(Image()).resolve(agent).command for agent in agents.all()}
    assert commands["claude-code"][4] == "claude"
    assert commands["other"][4] == "/opt/codex"
    assert all(make_programs(Image()).resolve(agent).read_only == () for agent in agents.all())


@pytest.mark.parametrize(
    ("agent_id", "module"),
    [
        ("lint-fixer", "agentjobs_worker.agents.builtin.lint_fixer"),
        ("cve-fixer", "agentjobs_dependencies.fixes"),
    ],
)
def test_a_built_in_agent_runs_with_the_python_of_the_image(agent_id: str, module: str) -> None:
    agent = catalog().get(agent_id)
    assert agent is not None
    assert agent.command == (PYTHON, "-I", "-u", "-m", module)
    assert agent.read_only == ()


async def test_the_fixer_gets_the_package_managers_of_the_image() -> None:
    agent = catalog().get("cve-fixer")
    assert agent is not None
    programs = make_programs(Image(PYTHON, "/opt/agentjobs/bin/uv", "/usr/bin/npm", "/usr/bin/uv"))
    await programs.ask([agent])
    tools = json.loads(programs.resolve(agent).environment["AGENTJOBS_FIXER_TOOLS"])
    assert tools == {"uv": ["/opt/agentjobs/bin/uv"], "npm": ["/usr/bin/npm"]}
