"""mini-swe-agent with a scripted model: the Anthropic API, and failures.

`worker/tests/integration/agents` has the run with the OpenAI API.
"""

from pathlib import Path

from agentjobs.gateway.spending import Totals
from agentjobs.store.database import Database
from tests.support.agent_programs import drive
from tests.support.gateway import gateway_harness
from tests.support.mini_swe_agent import mini, replies_that_write_and_submit
from tests.support.model_messages import ModelReply


async def test_it_changes_files_and_is_charged(db: Database, tmp_path: Path) -> None:
    replies = replies_that_write_and_submit()
    async with gateway_harness(db, replies, api="anthropic", job_usd=1) as harness:
        driven = await drive(mini("anthropic"), harness.gateway, tmp_path)
        totals = await harness.settled()
    assert driven.failure is None, driven.log
    assert driven.changed() == ["out.txt"]
    assert totals == Totals(
        input_tokens=200, output_tokens=40, cost_nanousd=2 * (100_000 + 200_000), requests=2
    )


async def test_its_failure_is_detected_although_it_exits_with_0(
    db: Database, tmp_path: Path
) -> None:
    async with gateway_harness(db, [ModelReply(text="I only talk.", always=True)]) as harness:
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
