"""What a run may do: the definition narrowed by repository, organization and request."""

from typing import Any

import msgspec
import pytest

from agentjobs.publishing.pull_request import pull_options
from agentjobs_runtime.agents.definitions import Agent
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.repo_configuration import ConfigurationError, parse_configuration
from agentjobs_worker.run.plan import RunPlan, plan_run

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


def test_the_agents_definition_applies_by_default() -> None:
    result = plan()
    assert result.timeout_seconds == 600
    assert result.network == AGENT.network
    assert result.job_limit_nanousd == 5_000_000_000
    assert result.checks == ()


@pytest.mark.parametrize(
    ("configuration", "override", "seconds"),
    [
        ("timeout_seconds = 60", {}, 60),
        ("", {"timeout_seconds": 30}, 30),
        ("timeout_seconds = 6000", {"timeout_seconds": 500}, 500),
    ],
)
def test_the_shortest_timeout_applies(configuration: str, override: Any, seconds: int) -> None:
    assert plan(configuration, **override).timeout_seconds == seconds


def test_the_smallest_budget_applies() -> None:
    assert plan(max_cost_usd=0.1).job_limit_nanousd == 100_000_000
    assert plan("max_cost_usd = 2").job_limit_nanousd == 2_000_000_000
    assert plan(job={"job_budget_nanousd": 7}).job_limit_nanousd == 7
    assert plan(agent={"max_cost_usd": None}).job_limit_nanousd is None


def test_a_repository_narrows_the_network_and_never_widens_it() -> None:
    network = 'network = ["packages.test", "api.example.com", "evil.org", "example.com.evil.org"]'
    assert plan(network).network == ("packages.test", "api.example.com")
    assert plan("network = []").network == ()
    assert plan(network, agent={"network": ()}).network == ()


def test_a_repositorys_check_is_added_to_the_operators() -> None:
    result = plan('verify = "make test"', agent={"verify": ("lint",)})
    assert [check.command for check in result.checks] == [("lint",), ("sh", "-c", "make test")]


def test_a_report_has_no_change_to_check() -> None:
    assert plan('verify = "make test"', agent={"result": "report"}).checks == ()


def test_a_repositorys_check_gets_no_extra_files() -> None:
    (check,) = plan('verify = ["/etc/hostname", "/etc/passwd"]').checks
    assert check.read_only == ()


def test_a_repository_cannot_disable_the_operators_check_or_its_effect() -> None:
    operator = {"verify": ("lint",), "on_verify_failure": "fail"}
    result = plan('verify = []\non_verify_failure = "draft"', agent=operator)
    assert [check.command for check in result.checks] == [("lint",)]
    assert result.on_verify_failure == "fail"


def test_a_repository_sets_the_effect_of_its_own_check() -> None:
    assert plan('verify = "x"\non_verify_failure = "fail"').on_verify_failure == "fail"
    assert plan('verify = "x"').on_verify_failure == "draft"


def test_the_operators_setting_applies_to_a_repositorys_check() -> None:
    assert plan('verify = "x"', agent={"on_verify_failure": "fail"}).on_verify_failure == "fail"


def test_the_request_overrides_the_repositorys_draft_setting() -> None:
    def is_draft(configuration: str = "", **override: bool) -> bool:
        job = msgspec.structs.replace(JOB, config_override=override)
        return pull_options(job, parse_configuration(configuration.encode())).draft

    assert not is_draft()
    assert is_draft("draft = true")
    assert not is_draft("draft = true", draft=False)
    assert is_draft(draft=True)


def test_settings_for_one_agent_apply_only_to_it() -> None:
    assert plan("[agents.fixer]\ntimeout_seconds = 9").timeout_seconds == 9
    assert plan("[agents.other]\ntimeout_seconds = 9").timeout_seconds == 600


def test_an_invalid_host_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="network"):
        plan('network = ["https://packages.test/simple"]')
