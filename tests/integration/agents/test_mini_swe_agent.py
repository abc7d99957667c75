"""The real mini-swe-agent, in the sandbox and through the gateway, with a scripted model."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentjobs.agents.definitions import Agent
from agentjobs.agents.readiness import check_readiness
from agentjobs.gateway.ledger import Totals
from agentjobs.gateway.upstream import Api
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from tests.support.agent_programs import WRITE, declared, drive
from tests.support.gateway import REAL_KEY, gateway_harness
from tests.support.model_messages import Answer, Tokens, ToolCall
from tests.support.paths import PROJECT

MINI = PROJECT / ".venv-agents" / "bin" / "mini"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await open_database(sqlite_url, migrate=False)
    yield opened
    await opened.close()


def mini(api: Api = "openai") -> Agent:
    return declared(
        preset="mini-swe-agent",
        executable=str(MINI),
        model_api=api,
        model="priced",
        environment={"MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1"},
    )


def runs(command: str) -> Answer:
    return Answer(
        text="Next:", tool_calls=[ToolCall("bash", {"command": command})], usage=Tokens(100, 20)
    )


async def test_it_is_ready_where_make_installed_it() -> None:
    result = await check_readiness(mini())
    assert result.reason is None
    assert f"mini-swe-agent=={result.version}" in (PROJECT / "requirements-agents.lock").read_text()


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_it_changes_files_and_is_charged(db: Database, tmp_path: Path, api: Api) -> None:
    async with gateway_harness(db, [runs(WRITE), runs(SUBMIT)], api=api, job_usd=1) as harness:
        driven = await drive(mini(api), harness.gateway, tmp_path)
        totals = await harness.settled()
        requests = harness.provider.requests
    assert driven.failure is None, driven.log
    assert driven.changed() == ["out.txt"]
    assert driven.pull is not None
    assert driven.pull.title == "Write out.txt"
    assert totals == Totals(
        input_tokens=200, output_tokens=40, cost_nanousd=2 * (100_000 + 200_000), requests=2
    )
    assert "out.txt" in str(requests[0].body), "the task is in its prompt"
    assert REAL_KEY not in driven.log


async def test_its_failure_is_detected_although_it_exits_with_0(
    db: Database, tmp_path: Path
) -> None:
    async with gateway_harness(db, [Answer(text="I only talk.", always=True)]) as harness:
        driven = await drive(mini(), harness.gateway, tmp_path)
    assert driven.report.exit_code == 0
    assert driven.failure is not None
    assert "RepeatedFormatError" in driven.failure


async def test_a_request_that_the_model_refuses_fails_it(db: Database, tmp_path: Path) -> None:
    async with gateway_harness(db, models=("other",)) as harness:
        driven = await drive(mini(), harness.gateway, tmp_path)
    assert driven.failure is not None
    assert "must not use the model priced" in driven.failure
    assert driven.changed() == []
