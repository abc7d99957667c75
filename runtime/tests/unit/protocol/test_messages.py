"""Messages between service and worker survive a transport, and are documented."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentjobs_runtime.agents.artifacts import Artifact
from agentjobs_runtime.agents.steps import StoredStep
from agentjobs_runtime.environments.records import EnvironmentView
from agentjobs_runtime.protocol import outcomes
from agentjobs_runtime.protocol.messages import (
    REQUESTS,
    AdoptJobs,
    AppendLog,
    BeginDrain,
    ClaimJobs,
    FindCancelled,
    FindDeletedRepos,
    FindLastStep,
    FinishJob,
    RecordEnvironment,
    RecordPhases,
    RecordVerification,
    RemoveResults,
    Renew,
    Request,
    SignOff,
    StartJob,
    StoreArtifacts,
    StoreSteps,
)
from agentjobs_runtime.protocol.verification import Verification
from agentjobs_runtime.protocol.worker_info import WorkerInfo

CLAIM = ("job_1", 3)
CHECKS = Verification(command="make", passed=True, exit_code=0, duration_ms=1, output="")
FAILED = outcomes.Failed("timeout", "too slow")
OUTAGE = outcomes.Outage("local", "away", 2.0)
EXAMPLES: list[Request[Any]] = [
    Renew(worker=WorkerInfo("wrk_1", "host", 2, []), claims=(CLAIM,), was_cut_off=True, sent_at=1),
    BeginDrain(),
    SignOff(),
    ClaimJobs(agents=["fixer"], count=2, expected=frozenset({"org_1"})),
    AdoptJobs(["wrk_0"], 2),
    FindCancelled(),
    FindDeletedRepos({"repo_1"}),
    StartJob(CLAIM, "1" * 40, "the prompt"),
    AppendLog(CLAIM, "a line\n", 5, may_be_stored=True),
    FindLastStep(CLAIM),
    StoreSteps(
        CLAIM, [StoredStep(sequence=1, started_at=2, kind="read", title="a", state="failed")], 4
    ),
    StoreArtifacts(CLAIM, (Artifact("a.bin", b"\x00\xff"),)),
    RemoveResults(CLAIM),
    RecordPhases(CLAIM, "[]"),
    RecordEnvironment(
        CLAIM,
        EnvironmentView(build_id=None, image=None, image_digest=None, key=None, prepared_ms=1),
    ),
    RecordVerification(CLAIM, CHECKS),
]
OUTCOMES: list[outcomes.Outcome] = [
    outcomes.Completed("http://h/1", 1, "2" * 40, draft=True),
    outcomes.Reported(outcomes.JobReport("# Report", "{}")),
    FAILED,
    outcomes.Cancelled(),
    outcomes.Released(),
    outcomes.Unreachable(OUTAGE),
    outcomes.NotReady(outcomes.EnvironmentHold("key", "repo_1", None, 5)),
    outcomes.DiskFull(FAILED, 3),
    outcomes.LostSandbox(FAILED, is_host_exhausted=True),
    outcomes.Kept(outcomes.KeptWork("1" * 40, "2" * 40, b"\x00bundle")),
    outcomes.Abandoned(),
]
EXAMPLES += [FinishJob(CLAIM, outcome) for outcome in OUTCOMES]


@pytest.mark.parametrize("request_", EXAMPLES, ids=lambda example: type(example).__name__)
def test_a_request_is_the_same_after_it_was_sent(request_: Request[Any]) -> None:
    decoder = msgspec.msgpack.Decoder(any_request())
    assert decoder.decode(msgspec.msgpack.encode(request_)) == request_


def any_request() -> Any:
    union: Any = REQUESTS[0]
    for request in REQUESTS[1:]:
        union |= request
    return union


def test_every_request_and_every_outcome_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(REQUESTS)
    assert {type(outcome) for outcome in OUTCOMES} == set(outcomes.Outcome.__args__)


def test_every_request_is_in_the_documentation() -> None:
    page = Path(__file__).parents[4] / "docs/internals/workers.md"
    text = page.read_text(encoding="utf-8")
    assert [request.__name__ for request in REQUESTS if f"`{request.__name__}`" not in text] == []
