"""A small real model, end to end: sandbox, gateway, usage, change."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.store.database import Database
from tests.support.agent_programs import declared, drive
from tests.support.gateway import gateway_harness
from tests.support.paths import PROJECT

PYTHON = PROJECT / ".agents" / "small-model" / "bin" / "python"
# Streams a response and writes it to a file.
ASKS = """
import json, os, urllib.request
body = {"model": "priced", "stream": True, "max_tokens": 24,
        "messages": [{"role": "user", "content": "Name three colours."}]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
said = ""
for line in urllib.request.urlopen(request):
    if line.startswith(b"data: {"):
        for choice in json.loads(line[6:])["choices"]:
            said += choice["delta"].get("content") or ""
print("it said:", said)
open("said.txt", "w").write(said + "\\n")
"""


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    with subprocess.Popen(
        [PYTHON, Path(__file__).with_name("small_model.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.mark.timeout(300)
async def test_an_agent_calls_it_and_changes_a_file(
    db: Database, tmp_path: Path, model_url: str
) -> None:
    agent = declared(
        id="asks", name="Asks", command=["python3", "-c", ASKS], model_api="openai", model="priced"
    )
    async with gateway_harness(db, provider_url=model_url, job_usd=1) as harness:
        driven = await drive(agent, harness.gateway, tmp_path, timeout_seconds=250)
        totals = await harness.settled()
    assert driven.failure is None, driven.log
    assert driven.changed() == ["said.txt"]
    assert len((driven.workspace / "said.txt").read_text()) > 5
    assert 0 < totals.output_tokens <= 24
    assert totals.requests == 1
    assert 0 < totals.cost_nanousd < 1_000_000


@pytest.mark.timeout(600)
async def test_mini_swe_agent_with_a_weak_model_ends_with_a_reported_failure(
    db: Database, tmp_path: Path, model_url: str
) -> None:
    """The model cannot call tools; only the agent's reported outcome counts."""
    agent = declared(
        preset="mini-swe-agent",
        executable=str(PROJECT / ".venv-agents" / "bin" / "mini"),
        model_api="openai",
        model="priced",
    )
    async with gateway_harness(db, provider_url=model_url, job_usd=1) as harness:
        driven = await drive(agent, harness.gateway, tmp_path, timeout_seconds=550)
        totals = await harness.settled()
    assert driven.failure is not None
    assert "mini-swe-agent stopped" in driven.failure
    assert totals.requests >= 1
    assert totals.input_tokens > 0
