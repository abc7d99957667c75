"""What one run may do: the agent's definition, narrowed by the repository's configuration, the
organization's budget and the request. Pure functions."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from agentjobs_runtime.agents.definitions import Agent, OnVerifyFailure
from agentjobs_runtime.environments.setup_scripts import named_scripts
from agentjobs_runtime.money import nanousd
from agentjobs_runtime.outbound.guard.host_patterns import narrow_patterns
from agentjobs_runtime.protocol.claimed_job import ClaimedJob
from agentjobs_runtime.repo_configuration import Configuration, ConfigurationError, RunConfiguration


class Check(msgspec.Struct, frozen=True):
    """A command that has to succeed after the agent. Its sandbox can read the files `read_only`."""

    command: tuple[str, ...]
    read_only: tuple[Path, ...] = ()


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    agent: Agent
    timeout_seconds: float
    network: tuple[str, ...]
    job_limit_nanousd: int | None
    checks: tuple[Check, ...]
    on_verify_failure: OnVerifyFailure
    protected_paths: tuple[str, ...]
    setup_scripts: tuple[str, ...] = ()

    def protect_scripts(self, setup: str) -> "RunPlan":
        """Protect scripts that `setup` names, even if the agent does not use the environment."""
        return msgspec.structs.replace(self, setup_scripts=named_scripts(setup))

    @property
    def uses_environment(self) -> bool:
        """Whether anything runs in the environment of the repository."""
        return self.agent.uses_environment or bool(self.checks)


def plan_run(job: ClaimedJob, agent: Agent, configuration: Configuration) -> RunPlan:
    """Raises ConfigurationError for invalid host names."""
    override, own = job.config_override, configuration.for_agent(agent.id)
    return RunPlan(
        agent=agent,
        timeout_seconds=_minimum(
            agent.timeout_seconds, own.timeout_seconds, override.get("timeout_seconds")
        ),
        network=_narrow(agent.network, own.network),
        job_limit_nanousd=_job_limit(job, agent, own),
        checks=_checks(agent, own),
        on_verify_failure=_on_verify_failure(agent, own),
        protected_paths=configuration.protected_paths,
    )


def _checks(agent: Agent, own: RunConfiguration) -> tuple[Check, ...]:
    """A repository adds its check to the operator's; only the operator's can name extra files.

    A report has no change to check.
    """
    if agent.result == "report":
        return ()
    checks = [Check(agent.verify, agent.verify_files)] if agent.verify else []
    if own.verify and own.verify != agent.verify:
        checks.append(Check(own.verify))
    return tuple(checks)


def _on_verify_failure(agent: Agent, own: RunConfiguration) -> OnVerifyFailure:
    """The stricter setting applies to every check."""
    return "fail" if "fail" in (agent.on_verify_failure, own.on_verify_failure) else "draft"


def _job_limit(job: ClaimedJob, agent: Agent, own: RunConfiguration) -> int | None:
    in_usd = (job.config_override.get("max_cost_usd"), agent.max_cost_usd, own.max_cost_usd)
    limits = [*map(nanousd, in_usd), job.job_budget_nanousd]
    return min((limit for limit in limits if limit is not None), default=None)


def _minimum(seconds: float, *others: float | None) -> float:
    return float(min([seconds, *(other for other in others if other is not None)]))


def _narrow(granted: tuple[str, ...], requested: Iterable[str] | None) -> tuple[str, ...]:
    """The hosts that a repository requests and its agent is granted."""
    if requested is None:
        return granted
    try:
        return narrow_patterns(granted, requested)
    except ValueError as error:
        raise ConfigurationError(f"network: {error}") from None
