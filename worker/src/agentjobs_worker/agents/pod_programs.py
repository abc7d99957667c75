"""Which agents the image of agents' pods can run: pods see no program of the worker.

The image is asked in a pod, at most once an hour.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import PurePosixPath

import msgspec

from agentjobs_runtime.agents.definitions import Agent
from agentjobs_worker.agents.cve_fixer_support import TOOL_NAMES, TOOLS_VARIABLE
from agentjobs_worker.agents.presets.all_presets import PRESETS
from agentjobs_worker.sandbox import mounts
from agentjobs_worker.sandbox.clusters import ClusterSandbox, load_cluster
from agentjobs_worker.sandbox.protocol import RootImage, SandboxError

# Where the images of this project have the service, and with it the built-in agents.
PREFIX = PurePosixPath("/opt/agentjobs/bin")
PYTHON = str(PREFIX / "python")
_UV = str(PREFIX / "uv")
_ASK_AGAIN_SECONDS = 3_600.0


class _Answer(msgspec.Struct, frozen=True):
    asked: frozenset[str] = frozenset()
    programs: Mapping[str, str] = {}
    at: float = 0.0


_NO_ANSWER = _Answer()


class PodPrograms:
    """`image` is the default one, whose tag may lead to another image later."""

    def __init__(
        self, sandbox: ClusterSandbox, image: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sandbox = sandbox
        self._image = image
        self._clock = clock
        self._answers: dict[str, _Answer] = {}  # by PATH
        self._failures: dict[str, str] = {}

    async def ask(self, agents: Iterable[Agent]) -> None:
        """Look for the programs of these agents, unless that was done recently."""
        wanted: dict[str, set[str]] = {}
        for agent in agents:
            wanted.setdefault(_path(agent), set()).update(_programs(agent))
        for path, names in wanted.items():
            known = self._answers.get(path, _NO_ANSWER)
            if names <= known.asked and self._clock() < known.at + _ASK_AGAIN_SECONDS:
                continue
            asked = names | known.asked
            try:
                # The root directory is for absolute paths.
                programs = await self._sandbox.find_programs(asked, path=f"{path}:/")
            except SandboxError as error:
                # The earlier answer counts until the cluster responds.
                self._failures[path] = str(error)
                continue
            self._failures.pop(path, None)
            self._answers[path] = _Answer(frozenset(asked), programs, self._clock())

    async def find(self, names: Collection[str], image: RootImage, path: str) -> Collection[str]:
        """The programs that an image of a repository has. Raises SandboxError."""
        return await self._sandbox.find_programs(names, image=image, path=path)

    def problem(self, agent: Agent) -> str | None:
        """Why the agent cannot run, and what to do; None if it can."""
        path = _path(agent)
        program = find_program_name(agent)
        if program is None or any(
            str(file) == program and load_cluster().is_copied(file) for file in agent.read_only
        ):
            return None
        answer = self._answers.get(path, _NO_ANSWER)
        if program in answer.programs:
            return None
        if program not in answer.asked:
            reason = self._failures.get(path, "no pod has looked yet")
            return f"whether the image {self._image} has `{program}` is unknown: {reason}"
        return (
            f"`{program}` is not in the image {self._image}: install it there and set "
            "AGENTJOBS_KUBERNETES_IMAGE, see docs/kubernetes.md"
        )

    def resolve(self, agent: Agent) -> Agent:
        """The agent with the command of the image, and without files of the worker's programs."""
        if agent.preset is not None:
            assert agent.model is not None, "every preset has a model"
            preset = PRESETS[agent.preset]
            program = (agent.executable or preset.executable,)
            command = preset.command(program, agent.model, agent.arguments)
            return msgspec.structs.replace(agent, command=command, read_only=())
        if agent.uses_package_managers:
            tools = msgspec.json.encode(self._package_managers(agent)).decode()
            return msgspec.structs.replace(
                agent, environment={**agent.environment, TOOLS_VARIABLE: tools}
            )
        return agent

    def _package_managers(self, agent: Agent) -> dict[str, tuple[str, ...]]:
        programs = self._answers.get(_path(agent), _NO_ANSWER).programs
        tools = {name: programs[name] for name in TOOL_NAMES if name in programs}
        if _UV in programs:
            tools["uv"] = _UV
        return {name: (program,) for name, program in tools.items()}


def _path(agent: Agent) -> str:
    return agent.environment.get("PATH", mounts.PATH)


def find_program_name(agent: Agent) -> str | None:
    """None for a program in the repository, which is unknown before there is a job."""
    if agent.preset is not None:
        return agent.executable or PRESETS[agent.preset].executable
    program = agent.command[0]
    return None if "/" in program and not program.startswith("/") else program


def _programs(agent: Agent) -> set[str]:
    program = find_program_name(agent)
    names = set() if program is None else {program}
    return names | {*TOOL_NAMES, _UV} if agent.uses_package_managers else names
