"""What a run may do: the definition narrowed by repository, organization and request."""

from typing import Any

import msgspec
import pytest

from agentjobs.agents.definitions import Agent
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.plan import RunPlan, plan_run
from agentjobs.repos.configuration import ConfigurationError, parse_configuration

AGENT = Agent(
    id="fixer",
    name="Fixer",
    plan_required="free",
    command=("true",),
    timeout_seconds=600,
    network=("packages.test", "*.example.com"),
    max_cost_usd=5,
)
JOB = ClaimedJob(
    id="job_x",
    organization_id="org_x",
    organization="default",
    repo_id="repo_x",
    repo="a/b",
    repo_is_connected=True,
    platform="local",
    default_branch="main",
    repo_head="0" * 40,
    agent="fixer",
    ticket_id=None,
    config_override={},
    fence=1,
    attempt=0,
    was_started_before=False,
    branch="agentjobs/fixer/x",
    credential="",
)


def plan(
    configuration: str = "",
    agent: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    **override: Any,
) -> RunPlan:
    return plan_run(
        msgspec.structs.replace(JOB, config_override=override, **(job or {})),
        msgspec.structs.replace(AGENT, **(agent or {})),
        parse_configuration(configuration.encode()),
    )


def test_without_a_word_from_anybody_the_definition_holds() -> None:
    made = plan()
    assert made.timeout_seconds == 600
    assert made.network == AGENT.network
    assert made.job_limit_nanousd == 5_000_000_000
    assert made.checks == ()
    assert not made.draft


@pytest.mark.parametrize(
    ("configuration", "override", "seconds"),
    [
        ("timeout_seconds = 60", {}, 60),
        ("", {"timeout_seconds": 30}, 30),
        ("timeout_seconds = 6000", {"timeout_seconds": 500}, 500),
    ],
)
def test_the_shortest_time_counts(configuration: str, override: Any, seconds: int) -> None:
    assert plan(configuration, **override).timeout_seconds == seconds


def test_the_smallest_budget_counts() -> None:
    assert plan(max_cost_usd=0.1).job_limit_nanousd == 100_000_000
    assert plan("max_cost_usd = 2").job_limit_nanousd == 2_000_000_000
    assert plan(job={"job_budget_nanousd": 7}).job_limit_nanousd == 7
    assert plan(agent={"max_cost_usd": None}).job_limit_nanousd is None


def test_a_repository_narrows_the_network_and_never_widens_it() -> None:
    asked = 'network = ["packages.test", "api.example.com", "evil.org", "example.com.evil.org"]'
    assert plan(asked).network == ("packages.test", "api.example.com")
    assert plan("network = []").network == ()
    assert plan(asked, agent={"network": ()}).network == ()


def test_a_repositorys_check_comes_on_top_of_the_operators() -> None:
    made = plan('verify = "make test"', agent={"verify": ("lint",)})
    assert [check.command for check in made.checks] == [("lint",), ("sh", "-c", "make test")]


def test_a_repositorys_check_is_shown_no_file_of_the_machine() -> None:
    (check,) = plan('verify = ["/etc/hostname", "/etc/passwd"]').checks
    assert check.read_only == ()


def test_a_repository_cannot_silence_the_operators_check_or_its_consequence() -> None:
    operator = {"verify": ("lint",), "on_verify_failure": "fail"}
    made = plan('verify = []\non_verify_failure = "draft"', agent=operator)
    assert [check.command for check in made.checks] == [("lint",)]
    assert made.on_verify_failure == "fail"


def test_a_repository_says_what_its_own_checks_failure_means() -> None:
    assert plan('verify = "x"\non_verify_failure = "fail"').on_verify_failure == "fail"
    assert plan('verify = "x"').on_verify_failure == "draft"


def test_the_operators_word_holds_for_a_repositorys_check_too() -> None:
    assert plan('verify = "x"', agent={"on_verify_failure": "fail"}).on_verify_failure == "fail"


def test_the_request_decides_about_a_draft_and_the_repository_before_it() -> None:
    assert plan("draft = true").draft
    assert not plan("draft = true", draft=False).draft
    assert plan(draft=True).draft


def test_settings_for_one_agent_hold_for_it_alone() -> None:
    assert plan("[agents.fixer]\ntimeout_seconds = 9").timeout_seconds == 9
    assert plan("[agents.other]\ntimeout_seconds = 9").timeout_seconds == 600


def test_a_host_that_is_none_is_the_repositorys_fault() -> None:
    with pytest.raises(ConfigurationError, match="network"):
        plan('network = ["https://packages.test/simple"]')
