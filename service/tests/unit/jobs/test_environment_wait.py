"""How long a job waits for an environment that nobody can build."""

from types import SimpleNamespace
from typing import Any

import pytest

from agentjobs_runtime.clock import DAY_MS
from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.key import EnvironmentRequest
from agentjobs_runtime.environments.records import hold_key
from agentjobs_runtime.protocol.outcomes import EnvironmentFailed
from agentjobs_worker.run.environment import check_waiting_time

REQUEST = EnvironmentRequest(definition=EnvironmentDefinition(setup="make deps"))
KEY = hold_key("repo_1", REQUEST.request_key)


def a_job(environment_key: str | None) -> Any:
    return SimpleNamespace(repo_id="repo_1", created_at=1_000, environment_key=environment_key)


def test_a_job_waits_for_a_day_and_then_fails() -> None:
    check_waiting_time(a_job(KEY), REQUEST, DAY_MS)
    with pytest.raises(EnvironmentFailed, match="24 hours"):
        check_waiting_time(a_job(KEY), REQUEST, 1_000 + DAY_MS)


def test_a_job_that_waited_for_something_else_gets_its_environment_built() -> None:
    check_waiting_time(a_job(None), REQUEST, 10 * DAY_MS)
    check_waiting_time(a_job(hold_key("repo_1", "another")), REQUEST, 10 * DAY_MS)
