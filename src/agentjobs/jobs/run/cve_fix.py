"""The part of a run that only the agent `cve-fixer` has: what it is asked for, and the proof.

Whatever the agent says or its tools exit with: only the proposed commit's own files count.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from agentjobs.advisories.registries.hosts import hosts_of
from agentjobs.advisories.scans import choose_versions
from agentjobs.agents.fixable import CVE_FIXER
from agentjobs.git.remote import without_credentials
from agentjobs.jobs.auto_trigger_rows import take_over
from agentjobs.jobs.logs.writer import LogWriter
from agentjobs.jobs.queue.claim import ClaimedJob
from agentjobs.jobs.run.exposure import Exposure, exposure_at
from agentjobs.jobs.run.fix_plan import Fix, make_plan, of_this_job, wanted_findings
from agentjobs.jobs.run.outcomes import Stopped
from agentjobs.jobs.run.plan import RunPlan
from agentjobs.jobs.run.recheck import recheck
from agentjobs.jobs.run.tools import JobTools
from agentjobs.settings.registries import ECOSYSTEMS

# Their files are edited as text.
_WITHOUT_NETWORK = ("Go", "Maven")


@dataclass(slots=True)
class Fixing:
    """Does nothing for any other agent."""

    job: ClaimedJob
    tools: JobTools
    log: LogWriter
    _before: Exposure | None = None
    _fixes: tuple[Fix, ...] = field(default=())

    @property
    def is_wanted(self) -> bool:
        return self.job.agent == CVE_FIXER

    @property
    def for_job_file(self) -> list[dict[str, Any]] | None:
        return list(msgspec.to_builtins(self._fixes)) if self.is_wanted else None

    async def prepare(self, base: str) -> None:
        """Raises Stopped when nothing is vulnerable, or nothing of it can be mended."""
        if not self.is_wanted:
            return
        settings = self.tools.context.settings
        self._before = await exposure_at(self.tools, self._mirror, base)
        findings = wanted_findings(self.job, self._before)
        choices = await choose_versions(self.tools.chooser, findings, self._before.advisories)
        findings = of_this_job(self.job, findings, choices)
        # A password in an address is the service's own: no agent gets to see it.
        registries = {one: without_credentials(settings.registry_url(one)) for one in ECOSYSTEMS}
        plan = make_plan(self._before, findings, choices, registries)
        await self._take_over(plan.fixes)
        for sentence in plan.left_out:
            self.log.say(sentence)
        for fix in plan.fixes:
            self.log.say(f"{fix.package} {fix.old} in {fix.manifest} goes to {fix.new}: {fix.why}")
        self._fixes = plan.fixes

    async def _take_over(self, fixes: tuple[Fix, ...]) -> None:
        """Of a fix that became another one since: nobody else is to propose it too."""
        cause = self.job.cause
        for fix in fixes if cause is not None else ():
            if cause is None or fix.new == cause.fix_version:
                continue
            key = (*fix.place, fix.new)
            other = await take_over(self.tools.context.db, self.job.repo_id, self.job.id, key)
            if other is not None:
                told = f"{fix.package} in {fix.manifest} shall go to {fix.new} by now"
                raise Stopped("no_changes", f"{told}, and {other} is the job for that.")

    def narrowed(self, plan: RunPlan) -> RunPlan:
        """The registries of this job's packages, and no other place."""
        if not self.is_wanted:
            return plan
        settings = self.tools.context.settings
        needed = {fix.ecosystem for fix in self._fixes}.difference(_WITHOUT_NETWORK)
        hosts = {host for ecosystem in needed for host in hosts_of(settings, ecosystem)}
        return msgspec.structs.replace(
            plan, network=tuple(host for host in plan.network if host in hosts)
        )

    async def prove(self, commit: str) -> None:
        """Raises Stopped when the commit does not do what it was made for."""
        if self._before is None:
            return
        after = await exposure_at(self.tools, self._mirror, commit)
        recheck(self._fixes, self._before, after)
        self.log.say("matched again: the proposed versions are not known to be vulnerable")

    @property
    def _mirror(self) -> Path:
        return self.tools.mirrors.path(self.job.repo_id)
