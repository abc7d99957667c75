"""The real Claude Code, Codex and opencode, sandboxed and behind the gateway, with a scripted
model."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from agentjobs.store.database import Database
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.upstream import Api
from agentjobs_worker.agents.readiness import check_readiness
from tests.support.agent_programs import WRITE, declared, drive
from tests.support.gateway import REAL_KEY, gateway_harness
from tests.support.model_messages import ModelReply, Tokens, ToolCall
from tests.support.paths import PROJECT

PROGRAMS = PROJECT / ".agents" / "node_modules" / ".bin"
USAGE = Tokens(100, 20)


@dataclass(frozen=True)
class Case:
    preset: str
    program: str
    api: Api
    tool: ToolCall
    model_url: str = ""

    def agent(self) -> Agent:
        return declared(
            preset=self.preset,
            executable=str(PROGRAMS / self.program),
            model="priced",
            model_api=self.api,
            model_url=self.model_url,
        )

    def script(self) -> list[ModelReply]:
        return [
            ModelReply(text="I write it.", tool_calls=[self.tool], usage=USAGE),
            ModelReply(text="All is done.", usage=USAGE),
        ]


BASH = ToolCall("bash", {"command": WRITE, "description": "write"})
CASES = (
    Case("claude-code", "claude", "anthropic", ToolCall("Bash", BASH.arguments)),
    Case("codex", "codex", "openai", ToolCall("exec_command", {"cmd": WRITE})),
    Case("opencode", "opencode", "anthropic", BASH),
    Case("opencode", "opencode", "openai", BASH),
    Case("opencode", "opencode", "openai", BASH, model_url="https://models.example"),
)


@pytest.fixture(params=CASES, ids=lambda case: f"{case.preset}-{case.api}{case.model_url[:5]}")
def case(request: pytest.FixtureRequest) -> Case:
    given: Case = request.param
    return given


async def test_it_is_ready_where_make_installed_it(case: Case) -> None:
    result = await check_readiness(case.agent())
    assert result.reason is None


async def test_it_changes_files_and_is_charged(case: Case, db: Database, tmp_path: Path) -> None:
    async with gateway_harness(db, case.script(), api=case.api, job_usd=100) as harness:
        driven = await drive(case.agent(), harness.gateway, tmp_path)
        totals = await harness.settled()
        notes = harness.notes
    assert driven.failure is None, (driven.failure, driven.log, notes)
    assert driven.changed() == ["out.txt"]
    assert driven.pull is not None
    assert driven.pull.title == "Write out.txt"
    assert (totals.requests, totals.input_tokens, totals.output_tokens) == (2, 200, 40)
    assert "I write it." in driven.log
    assert "All is done." in driven.log
    assert '{"type"' not in driven.log, "events are made readable"
    assert REAL_KEY not in driven.log
    assert WRITE in [step.title for step in driven.steps if step.kind == "command"]


# opencode retries a `server_error` of an OpenAI server for a minute.
@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: f"{case.preset}-{case.api}")
async def test_an_error_of_its_model_fails_it(case: Case, db: Database, tmp_path: Path) -> None:
    refusal = ModelReply(status=400, error="the script refuses this", always=True)
    async with gateway_harness(db, [refusal], api=case.api) as harness:
        driven = await drive(case.agent(), harness.gateway, tmp_path)
    assert driven.failure is not None
    assert "the script refuses this" in driven.failure
    assert driven.changed() == []


async def test_an_exceeded_budget_fails_it(case: Case, db: Database, tmp_path: Path) -> None:
    async with gateway_harness(db, case.script(), api=case.api, job_usd=0.000_001) as harness:
        driven = await drive(case.agent(), harness.gateway, tmp_path)
        assert harness.exceeded
        assert harness.provider.requests == []
    assert driven.failure is not None
    assert "budget" in driven.failure
